// SPDX-License-Identifier: BSD-3-Clause
//
// A plugin in two variants with the same layout in memory and different frames: STACK_PLUGIN_BYTES
// is the frame size of the function that calls back.
#include <cstddef>

extern "C" __attribute__((visibility("default"), noinline)) size_t
StackPluginCall(size_t (*callback)(void*), void* argument) {
  char variable[STACK_PLUGIN_BYTES];
  __asm__ volatile("" ::"r"(variable) : "memory");
  const size_t result = callback(argument);
  __asm__ volatile("" ::"r"(variable) : "memory");
  return result;
}
