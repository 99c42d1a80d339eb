// SPDX-License-Identifier: BSD-3-Clause
//
// A plugin in two variants that lie in memory alike and whose frames are not: STACK_PLUGIN_BYTES are
// those of the one function that calls back.
#include <cstddef>

extern "C" __attribute__((visibility("default"), noinline)) size_t StackPluginCall(
    size_t (*callback)(void*), void* argument) {
  char variable[STACK_PLUGIN_BYTES];
  __asm__ volatile("" ::"r"(variable) : "memory");
  const size_t result = callback(argument);
  __asm__ volatile("" ::"r"(variable) : "memory");
  return result;
}
