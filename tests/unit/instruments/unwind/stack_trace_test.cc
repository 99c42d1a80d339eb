// SPDX-License-Identifier: BSD-3-Clause
#include "os/stack_trace.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <vector>

#include "base/address_range.h"
#include "instruments/unwind/call_frame_cache.h"
#include "stack_functions.h"
#include "testing/guarded_pages.h"
#include "testing/random.h"
#include "testing/sanitizers.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

using Method = StackTraceMethod;

// True if the C library finds the call frame information of objects other than this program.
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__i386__))
constexpr bool kFollowsCallFrames = true;
#else
constexpr bool kFollowsCallFrames = false;
#endif

class StackTraceTest : public testing::Test {
 protected:
  ~StackTraceTest() override { SetStackTraceMethod(Method::kAuto); }
};

constexpr size_t kRoom = 2000;
uintptr_t frames[kRoom];
int sizes[kRoom];

__attribute__((noinline)) size_t TakeTrace(Request*) {
  const size_t depth = GetStackTrace(frames, kMaxStackDepth, 0);
  __asm__ volatile("" ::: "memory");
  return depth;
}

// The addresses that a chain recorded, the innermost first.
std::vector<uintptr_t> Noted(const Request& request) {
  std::vector<uintptr_t> noted(request.returns, request.returns + request.num_returns);
  std::reverse(noted.begin(), noted.end());
  return noted;
}

// Checks that `noted` is a part of the trace.
void ExpectHolds(const std::vector<uintptr_t>& trace, const std::vector<uintptr_t>& noted) {
  EXPECT_FALSE(noted.empty());
  EXPECT_NE(std::search(trace.begin(), trace.end(), noted.begin(), noted.end()), trace.end())
      << trace.size() << " frames";
}

std::vector<uintptr_t> Taken(size_t depth) { return {frames, frames + depth}; }

TEST_F(StackTraceTest, KnownChains) {
  struct Case {
    Method method;
    size_t (*outer)(Request*);
  };
  std::vector<Case> cases = {{Method::kFramePointers, &with_frame_pointers::Outer},
                             {Method::kAuto, &with_frame_pointers::Outer}};
  if (kFollowsCallFrames) {
    cases.push_back({Method::kCallFrameInfo, &with_frame_pointers::Outer});
    cases.push_back({Method::kCallFrameInfo, &without_frame_pointers::Outer});
    cases.push_back({Method::kAuto, &without_frame_pointers::Outer});
  }
  for (const Case& chosen : cases) {
    SetStackTraceMethod(chosen.method);
    for (int i = 0; i < 3; ++i) {  // the first trace is uncached, the others use the cache
      // With frame pointers the innermost function may be missing: it may have no frame pointer
      // itself.
      Request request{.take = &TakeTrace};
      const size_t depth = chosen.outer(&request);
      ASSERT_EQ(request.num_returns, 5u);
      ExpectHolds(Taken(depth), Noted(request));
      if (chosen.method != Method::kFramePointers) {
        EXPECT_EQ(std::vector(frames + 2, frames + 7), Noted(request));
      }
    }
  }
}

TEST_F(StackTraceTest, WritesNoMoreFramesThanTheLimit) {
  Request request{.take = [](Request*) -> size_t {
    const size_t depth = GetStackTrace(frames, kMaxStackDepth, 0);
    EXPECT_GE(depth, 8u);
    for (size_t max = 0; max < depth + 3; ++max) {
      std::fill(frames, frames + kMaxStackDepth, 77);
      const size_t taken = GetStackTrace(frames, max, 0);
      EXPECT_EQ(taken, std::min(max, depth));
      EXPECT_EQ(std::count(frames + taken, frames + kMaxStackDepth, 77), kMaxStackDepth - taken);
    }
    return depth;
  }};
  with_frame_pointers::Outer(&request);
}

__attribute__((noinline)) size_t TakeFrames(Request*) {
  const size_t depth = GetStackFrames(frames, sizes, kMaxStackDepth, 0, nullptr);
  __asm__ volatile("" ::: "memory");
  return depth;
}

__attribute__((noinline)) size_t TakeCallers(Request*) {
  const size_t depth = GetCallerStackTrace(frames, kMaxStackDepth, 0, AllocatorFrames::kLeading, 2);
  __asm__ volatile("" ::: "memory");
  return depth;
}

__attribute__((noinline)) size_t TakeCallersWithoutCache(Request*) {
  const size_t depth = GetCallerStackTrace(frames, kMaxStackDepth, 0, AllocatorFrames::kLeading, 2,
                                           RuleCache::kUnused);
  __asm__ volatile("" ::: "memory");
  return depth;
}

TEST_F(StackTraceTest, SizesOfFrames) {
  if (!kFollowsCallFrames) GTEST_SKIP() << "SKIP: no call frame information here";
  Request request{.take = &TakeFrames, .variable_bytes = 20000};
  const size_t depth = without_frame_pointers::Outer(&request);
  ExpectHolds(Taken(depth), Noted(request));
  // Frames 0 to 3 are those of TakeFrames, Take, Inner and Middle.
  for (size_t i = 0; i < 6; ++i) EXPECT_GT(sizes[i], 0) << i;
  EXPECT_LT(sizes[2], 500);
  EXPECT_GT(sizes[3], 29000);
  EXPECT_LT(sizes[3], 40000);
  // The last frame that fits has a size, too.
  const size_t few = [] { return GetStackFrames(frames, sizes, 1, 2, nullptr); }();
  EXPECT_EQ(few, 1u);
  EXPECT_GT(sizes[0], 0);
}

// In a program that contains the library, the caller says how many frames are the allocator's.
TEST_F(StackTraceTest, CallersOfTheAllocator) {
  if (!kFollowsCallFrames) GTEST_SKIP() << "SKIP: no call frame information here";
  EXPECT_TRUE(OwnObjectIsProgram());
  EXPECT_TRUE(InOwnObject(reinterpret_cast<uintptr_t>(&GetStackTrace)));
  EXPECT_FALSE(InOwnObject(reinterpret_cast<uintptr_t>(frames) + (uintptr_t{1} << 30)));
  for (const auto take : {&TakeCallers, &TakeCallersWithoutCache}) {
    Request request{.take = take};
    const size_t depth = without_frame_pointers::Outer(&request);
    ASSERT_GT(depth, 5u);
    EXPECT_EQ(std::vector(frames, frames + 5), Noted(request));
  }
}

// --- signals ---

std::vector<char> alternate_stack(size_t{256} << 10);
size_t taken_in_handler;
size_t taken_of_context;
uintptr_t context_frames[kMaxStackDepth];

void OnSignal(int, siginfo_t*, void* context) {
  taken_in_handler = GetStackTrace(frames, kMaxStackDepth, 0);
  taken_of_context = GetStackFrames(context_frames, nullptr, kMaxStackDepth, 0, context);
}

void InstallHandler(int signal, void (*handler)(int, siginfo_t*, void*), bool on_alternate_stack) {
  stack_t stack = {};
  stack.ss_sp = alternate_stack.data();
  stack.ss_size = alternate_stack.size();
  ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | (on_alternate_stack ? SA_ONSTACK : 0);
  ASSERT_EQ(sigaction(signal, &action, nullptr), 0);
}

TEST_F(StackTraceTest, SignalHandlers) {
  if (!kFollowsCallFrames) GTEST_SKIP() << "SKIP: no call frame information here";
  for (const bool alternate : {false, true}) {
    InstallHandler(SIGUSR1, &OnSignal, alternate);
    Request request{.take = [](Request*) -> size_t {
      raise(SIGUSR1);
      return 0;
    }};
    taken_in_handler = 0;
    without_frame_pointers::Outer(&request);
    ExpectHolds(Taken(taken_in_handler), Noted(request));
    // The trace from the context is the end of the trace in the handler, and no frame is missing.
    const std::vector<uintptr_t> of_context(context_frames, context_frames + taken_of_context);
    ExpectHolds(of_context, Noted(request));
    ASSERT_GT(taken_in_handler, taken_of_context);
    EXPECT_TRUE(std::equal(of_context.begin(), of_context.end(),
                           frames + taken_in_handler - taken_of_context));
  }
  signal(SIGUSR1, SIG_DFL);
}

// Functions that write to memory, which faults. The first one calls nothing: on aarch64 it has no
// frame, and its return address is in a register alone. In the second one that register has an
// address inside the function itself.
uintptr_t fault_returns_to;

__attribute__((noinline)) void WriteWithoutACall(volatile char* to) {
  fault_returns_to = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  *to = 1;
}
__attribute__((noinline)) void DoNothing() { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void WriteAfterACall(volatile char* to) {
  fault_returns_to = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  DoNothing();
  *to = 1;
  __asm__ volatile("" ::: "memory");
}

volatile char* faulting;
size_t faults;

void OnFault(int, siginfo_t*, void* context) {
  ++faults;
  taken_of_context = GetStackFrames(context_frames, nullptr, kMaxStackDepth, 0, context);
  mprotect(const_cast<char*>(faulting), kHardwarePage, PROT_READ | PROT_WRITE);
}

TEST_F(StackTraceTest, FaultsInFunctionsWithAndWithoutCalls) {
  void* const page = mmap(nullptr, kHardwarePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  faulting = static_cast<volatile char*>(page);
  InstallHandler(SIGSEGV, &OnFault, true);
  static void (*write)(volatile char* to);
  for (const auto chosen : {&WriteWithoutACall, &WriteAfterACall}) {
    write = chosen;
    faults = 0;
    mprotect(page, kHardwarePage, PROT_NONE);
    Request request{.take = [](Request*) -> size_t {
      write(faulting);
      __asm__ volatile("" ::: "memory");
      return 0;
    }};
    with_frame_pointers::Outer(&request);
    ASSERT_EQ(faults, 1u);
    ASSERT_GT(taken_of_context, 3u);
    EXPECT_EQ(context_frames[1], fault_returns_to);
    // The function that called it, then that function's caller: each is there once.
    ExpectHolds({context_frames + 2, context_frames + taken_of_context}, Noted(request));
    const uintptr_t function = reinterpret_cast<uintptr_t>(chosen);
    constexpr uintptr_t kFunctionBytes = 200;
    EXPECT_EQ(std::count_if(context_frames, context_frames + taken_of_context,
                            [&](uintptr_t frame) { return frame - function < kFunctionBytes; }),
              1);
  }
  signal(SIGSEGV, SIG_DFL);
  munmap(page, kHardwarePage);
}

#if defined(__x86_64__)
// Interrupts every instruction of a function and its callees, linker stubs included, once.
constexpr long long kTrapFlag = 0x100;
volatile bool stepping;
uintptr_t step_returns_to;
size_t steps;
size_t steps_lost;

void OnStep(int, siginfo_t*, void* argument) {
  auto* const context = static_cast<ucontext_t*>(argument);
  auto& flags = context->uc_mcontext.gregs[REG_EFL];
  if (!stepping) {
    flags &= ~kTrapFlag;
    return;
  }
  flags |= kTrapFlag;
  if (step_returns_to == 0) return;
  ++steps;
  uintptr_t trace[64];
  const size_t depth = GetStackFrames(trace, nullptr, 64, 0, context);
  if (std::find(trace, trace + depth, step_returns_to) == trace + depth) ++steps_lost;
}

int Ascending(const void* a, const void* b) {
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

__attribute__((noinline)) void Stepped() {
  step_returns_to = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  int numbers[] = {3, 1, 4, 1, 5, 9, 2, 6};
  qsort(numbers, 8, sizeof(int), &Ascending);
  char text[100];
  snprintf(text, sizeof(text), "%d %s", numbers[0], "text");
  Request request{.take = [](Request*) -> size_t { return 0; }};
  without_frame_pointers::Outer(&request);
  request.num_returns = 0;
  with_frame_pointers::Outer(&request);
  step_returns_to = 0;
}

TEST_F(StackTraceTest, InterruptedAnywhere) {
#if TESTED_WITH_TSAN
  GTEST_SKIP() << "SKIP: the sanitizer's own code is stepped through too, and where it holds its "
                  "lock, the handler, which is instrumented, waits for that lock";
#endif
  SetStackTraceMethod(Method::kCallFrameInfo);
  for (const bool alternate : {false, true}) {
    InstallHandler(SIGTRAP, &OnStep, alternate);
    steps = steps_lost = 0;
    stepping = true;
    raise(SIGTRAP);
    Stepped();
    stepping = false;
    raise(SIGTRAP);
    EXPECT_GT(steps, 1000u);
    EXPECT_EQ(steps_lost, 0u) << "of " << steps;
  }
  signal(SIGTRAP, SIG_DFL);
}

// Tests corrupt stacks, whose registers and chains lead to any address.
ucontext_t ContextOf(uintptr_t pc, uintptr_t sp, uintptr_t fp) {
  ucontext_t context = {};
  context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(pc);
  context.uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(sp);
  context.uc_mcontext.gregs[REG_RBP] = static_cast<greg_t>(fp);
  context.uc_mcontext.gregs[REG_RBX] = static_cast<greg_t>(fp);
  return context;
}

TEST_F(StackTraceTest, BadStacks) {
  constexpr uint64_t kSeed = 4711;
  SeededRandom random(kSeed);
  // A readable page lies between unreadable ones.
  const GuardedPages area(kHardwarePage);
  const uintptr_t page = area.start();
  std::vector<uintptr_t> code;
  {
    Request request{.take = &TakeTrace};
    code = Taken(without_frame_pointers::Outer(&request));
    code.push_back(0);
    code.push_back(page);
    code.push_back(reinterpret_cast<uintptr_t>(&qsort));
  }
  const auto somewhere = [&]() -> uintptr_t {
    switch (random.Below(6)) {
      case 0:
        return random.Next();
      case 1:
        return random.Below(10000);
      case 2:
        return page + random.Below(kHardwarePage) - kHardwarePage / 2 + random.Below(kHardwarePage);
      case 3:
        return page + random.Below(kHardwarePage);
      case 4:
        return page + (random.Below(kHardwarePage) & ~size_t{7});
      default:
        return page + kHardwarePage - 8 * random.Below(20);
    }
  };
  for (const Method method : {Method::kAuto, Method::kFramePointers, Method::kCallFrameInfo}) {
    SetStackTraceMethod(method);
    for (int i = 0; i < 3000; ++i) {
      for (size_t at = 0; at < kHardwarePage; at += 8) {
        const uintptr_t value = random.OneIn(3) ? code[random.Below(code.size())] : somewhere();
        if (i % 10 == 0) memcpy(area.data() + at, &value, sizeof(value));
      }
      const ucontext_t context =
          ContextOf(code[random.Below(code.size())], somewhere(), somewhere());
      const size_t depth = GetStackFrames(frames, sizes, kMaxStackDepth, 0, &context);
      ASSERT_LE(depth, kMaxStackDepth);
      ASSERT_GE(depth, 1u);
    }
  }
  // One frame is the caller of itself, and the caller of the other frame is at a lower address.
  SetStackTraceMethod(Method::kFramePointers);
  for (const uintptr_t caller : {page + 64, page + 32}) {
    const uintptr_t frame[] = {caller, code[0]};
    memcpy(area.data() + 64, frame, sizeof(frame));
    const ucontext_t context = ContextOf(code[1], page, page + 64);
    EXPECT_EQ(GetStackFrames(frames, nullptr, kMaxStackDepth, 0, &context), 2u);
    EXPECT_EQ(frames[0], code[1]);
    EXPECT_EQ(frames[1], code[0]);
  }
}
#endif

}  // namespace
}  // namespace tcmalloc
