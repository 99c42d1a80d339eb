// SPDX-License-Identifier: BSD-3-Clause
//
// Takes stack traces before main, and while libraries are loaded and unloaded, in turn at the same
// addresses. Each trace contains the function that took it.
//
//   stack_traces PLUGIN OTHER_PLUGIN
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

#include "../check.h"

namespace {

using TraceFunction = int (*)(void**, int, int);
TraceFunction get_stack_trace;

constexpr int kDepth = 64;

bool Holds(void* const* trace, int depth, const void* address) {
  for (int i = 0; i < depth; ++i) {
    if (trace[i] == address) return true;
  }
  return false;
}

// Takes a trace, which must contain `argument`, an address that the caller returns to.
size_t TakeTrace(void* argument) {
  void* trace[kDepth];
  const int depth = get_stack_trace(trace, kDepth, 0);
  CHECK(depth >= 3);
  CHECK(Holds(trace, depth, argument));
  return static_cast<size_t>(depth);
}

// --- before main, in a thread that a constructor starts ---

std::atomic<int> taken_before_main;

__attribute__((noinline)) void* TakeBeforeMain(void*) {
  TakeTrace(__builtin_return_address(0));
  ++taken_before_main;
  return nullptr;
}

__attribute__((constructor)) void BeforeMain() {
  get_stack_trace = reinterpret_cast<TraceFunction>(dlsym(RTLD_DEFAULT, "_Z13GetStackTracePPvii"));
  CHECK(get_stack_trace != nullptr);
  TakeBeforeMain(nullptr);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, &TakeBeforeMain, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

// --- libraries that are loaded and unloaded ---

size_t replaced;
void* in_plugin;

// As TakeTrace, called by a plugin: frame 0 is here, frame 1 in the plugin.
size_t TakeTraceOfPlugin(void* argument) {
  void* trace[kDepth];
  const int depth = get_stack_trace(trace, kDepth, 0);
  CHECK(depth >= 4);
  CHECK(trace[3] == argument);
  in_plugin = trace[1];
  return static_cast<size_t>(depth);
}

using PluginFunction = size_t (*)(size_t (*)(void*), void*);

__attribute__((noinline)) size_t CallPlugin(PluginFunction call) {
  const size_t depth = call(&TakeTraceOfPlugin, __builtin_return_address(0));
  __asm__ volatile("" ::: "memory");
  return depth;
}

void LoadAndUnload(const char* const* plugins, int loads) {
  const void* last = nullptr;
  for (int i = 0; i < loads; ++i) {
    void* const plugin = dlopen(plugins[i % 2], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != nullptr);
    PluginFunction call;
    *reinterpret_cast<void**>(&call) = dlsym(plugin, "StackPluginCall");
    CHECK(call != nullptr);
    // The first trace finds the rules, the second one has them in the cache.
    for (int n = 0; n < 2; ++n) CallPlugin(call);
    if (in_plugin == last) ++replaced;
    last = in_plugin;
    CHECK(dlclose(plugin) == 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3);
  RequireLibraryUnderTest();
  CHECK(taken_before_main == 2);
  constexpr int kLoads = 1000;
  const char* const plugins[] = {argv[1], argv[2]};
  LoadAndUnload(plugins, kLoads);
  printf("%zu of %d times another plugin was called from where the last one was\n", replaced,
         kLoads);
  // Otherwise the run would show nothing about replaced plugins.
  CHECK(replaced * 2 > size_t{kLoads});
  return 0;
}
