// SPDX-License-Identifier: BSD-3-Clause
//
// Takes stack traces while everything happens at once that could disturb them: libraries are loaded
// and unloaded, in turn at the same addresses; exceptions are thrown; signals arrive whose handlers
// take traces, on alternate stacks too; the process forks. Each trace contains the function that
// took it.
//
//   stack_traces PLUGIN OTHER_PLUGIN [LOADS EXCEPTIONS SIGNALS FORKS]
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <stdexcept>

#include "../check.h"

namespace {

using TraceFunction = int (*)(void**, int, int);
using ContextFunction = int (*)(void**, int, int, const void*);
TraceFunction get_stack_trace;
ContextFunction get_stack_trace_with_context;

template <typename Function>
void Find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  CHECK(*function != nullptr);
}

void FindFunctions() {
  Find("_Z13GetStackTracePPvii", &get_stack_trace);
  Find("_Z24GetStackTraceWithContextPPviiPKv", &get_stack_trace_with_context);
}

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
  FindFunctions();
  TakeBeforeMain(nullptr);
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, &TakeBeforeMain, nullptr) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

// --- libraries that are loaded and unloaded ---

std::atomic<bool> stop;
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

// --- exceptions ---

struct TakesInDestructor {
  explicit TakesInDestructor(void* a) : address(a) {}
  ~TakesInDestructor() { TakeTrace(address); }
  void* address;
};

__attribute__((noinline)) void Throw(int i) {
  const TakesInDestructor taker(__builtin_return_address(0));
  if (i % 2 == 0) throw std::runtime_error("a text that is too long to lie in the object itself");
  throw i;
}

void* ThrowExceptions(void* count) {
  for (int i = *static_cast<int*>(count); i > 0; --i) {
    try {
      Throw(i);
    } catch (const std::exception& e) {
      CHECK(i % 2 == 0);
    } catch (int caught) {
      CHECK(caught == i);
    }
  }
  return nullptr;
}

// --- signals ---

std::atomic<long> handled;

void OnSignal(int, siginfo_t*, void* context) {
  void* trace[kDepth];
  void* interrupted[kDepth];
  const int depth = get_stack_trace(trace, kDepth, 0);
  const int depth_interrupted = get_stack_trace_with_context(interrupted, kDepth, 3, context);
  // The handler, the trampoline, and the interrupted instruction.
  CHECK(depth >= 3 && depth_interrupted >= 1);
  CHECK(Holds(trace, depth, interrupted[0]));
  ++handled;
}

void UseAlternateStack(char* stack, size_t bytes) {
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = bytes;
  CHECK(sigaltstack(&alternate, nullptr) == 0);
}

pthread_t worker;

void* SendSignals(void* count) {
  const long signals = *static_cast<int*>(count);
  for (long sent = 0; sent < signals && !stop; ++sent) {
    // Sends the next signal when the last has been handled: signals of a kind do not queue.
    while (handled < sent && !stop) sched_yield();
    CHECK(pthread_kill(sent % 2 == 0 ? pthread_self() : worker, SIGUSR1) == 0);
  }
  return nullptr;
}

// --- forks ---

__attribute__((noinline)) void ForkOnce() {
  void* const back = __builtin_return_address(0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    TakeTrace(back);
    Free(Malloc(1000));
    TakeTrace(back);
    _exit(0);
  }
  int status = -1;
  while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
  CHECK(status == 0);
}

void* ForkChildren(void* count) {
  for (int i = *static_cast<int*>(count); i > 0; --i) ForkOnce();
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 3 || argc == 7);
  RequireLibraryUnderTest();
  CHECK(taken_before_main == 2);
  int counts[] = {1000, 10000, 1000, 100};
  for (int i = 3; i < argc; ++i) counts[i - 3] = atoi(argv[i]);

  struct sigaction action = {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  static char stack[256 << 10];
  worker = pthread_self();
  UseAlternateStack(stack, sizeof(stack));

  pthread_t throwing;
  pthread_t signalling;
  pthread_t forking;
  CHECK(pthread_create(&throwing, nullptr, &ThrowExceptions, &counts[1]) == 0);
  CHECK(pthread_create(&signalling, nullptr, &SendSignals, &counts[2]) == 0);
  CHECK(pthread_create(&forking, nullptr, &ForkChildren, &counts[3]) == 0);
  const char* const plugins[] = {argv[1], argv[2]};
  LoadAndUnload(plugins, counts[0]);
  CHECK(pthread_join(throwing, nullptr) == 0);
  CHECK(pthread_join(forking, nullptr) == 0);
  CHECK(pthread_join(signalling, nullptr) == 0);
  CHECK(handled >= counts[2] - 1);
  printf("%zu of %d times another plugin was called from where the last one was; %ld signals\n",
         replaced, counts[0], handled.load());
  // Otherwise the run would show nothing about replaced plugins.
  CHECK(replaced * 2 > static_cast<size_t>(counts[0]));
  return 0;
}
