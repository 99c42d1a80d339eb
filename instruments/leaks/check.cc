// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/check.h"

#include <algorithm>
#include <atomic>
#include <csignal>

#include "base/compiler.h"
#include "instruments/leaks/annotations.h"
#include "instruments/leaks/examination.h"
#include "instruments/leaks/heap_at_rest.h"
#include "instruments/profiles/process.h"
#include "instruments/world_stop/world_stop.h"
#include "os/clock.h"
#include "os/errno_keeper.h"

namespace tcmalloc {
namespace {

// The most world stops that are tried, when each time a thread was moving objects in its bins or
// the pages of a large object. The first takes some ten nanoseconds, the second microseconds, so a
// thread that is found there twice was preempted. The pauses between stops double up to the
// longest, to a second in all.
constexpr int kMaxAttempts = 20;
constexpr int kLongestRetryMs = 64;

// The id of the process that makes a check; 0 if there is none. Another thread of the process waits
// for the check to end. In a forked child the parent's check does not count.
constinit std::atomic<uint64_t> checking_process{0};

class ExclusiveCheck {
 public:
  ExclusiveCheck() {
    PrepareAnnotations();
    const uint64_t own = ProcessId();
    for (;;) {
      uint64_t other = checking_process.load(std::memory_order_relaxed);
      if (other != own && checking_process.compare_exchange_strong(
                              other, own, std::memory_order_acquire, std::memory_order_relaxed)) {
        break;
      }
      WaitMillisecond();
    }
  }
  ~ExclusiveCheck() { checking_process.store(0, std::memory_order_release); }
  ExclusiveCheck(const ExclusiveCheck&) = delete;
  ExclusiveCheck& operator=(const ExclusiveCheck&) = delete;

 private:
  const ErrnoKeeper keeper_;
};

LeakOutcome OutcomeOf(const Examination& examination, const StopResult& stop, bool stopped) {
  if (stop.outcome != StopOutcome::kDone || examination.unsettled()) {
    return LeakOutcome::kImpossible;
  }
  const LeakOutcome outcome = examination.outcome();
  return outcome == LeakOutcome::kDone && !stopped ? LeakOutcome::kNotStopped : outcome;
}

// Whether a plain load of the program's memory faulted.
bool IsFault(const StopResult& stop) {
  return stop.outcome == StopOutcome::kTaskDied && (stop.error == SIGSEGV || stop.error == SIGBUS);
}

TC_OUT_OF_LINE void CheckFrom(uintptr_t stack, Heap& heap, const LeakRequest& request,
                              FoundLeaks* report) {
  const ExclusiveCheck one;
  bool careful = false;
  int pause_ms = 1;
  for (int attempt = 1;; ++attempt) {
    bool stopped;
    Examination examination(heap, request, stack, careful, report);
    const auto examine = [](void* context, const WorldStop& world) {
      static_cast<Examination*>(context)->Run(world);
    };
    const StopResult stop = WithHeapAtRest(heap, examine, &examination, &stopped);
    if (examination.unsettled() && attempt < kMaxAttempts) {
      WaitMilliseconds(pause_ms);
      pause_ms = std::min(2 * pause_ms, int{kLongestRetryMs});
      continue;
    }
    // Some memory that is mapped as readable cannot be read, because of a guard page that /proc
    // does not show, a truncated file, or a protection key. The check is repeated with the guarded
    // reader, which is not used at first because it is slower.
    if (IsFault(stop) && !careful) {
      careful = true;
      report->Clear();
      continue;
    }
    report->outcome = OutcomeOf(examination, stop, stopped);
    if (stop.outcome == StopOutcome::kTaskDied) {
      report->signal = stop.error;
      // A sandbox ended the task.
      if (stop.error == SIGSYS) report->error = ENOSYS;
    } else {
      report->error = stop.error;
    }
    report->stuck_thread = stop.thread_id;
    report->pause_ns = stop.pause_ns;
    report->time_ns = WallClockNanoseconds();
    break;
  }
  if (!report->Finish()) report->outcome = LeakOutcome::kNoMemory;
}

}  // namespace

TC_OUT_OF_LINE void CheckForLeaks(Heap& heap, const LeakRequest& request, FoundLeaks* report) {
  // Makes the compiler store the program's callee-saved registers in this frame, right below its
  // address or above it.
  __builtin_unwind_init();
  constexpr size_t kBelow = 8 * sizeof(uintptr_t);
  const uintptr_t own_stack = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kBelow;
  CheckFrom(request.program_stack != 0 ? request.program_stack : own_stack, heap, request, report);
  // Keeps the compiler from making the call above a tail call, which would remove the frame.
  __asm__ volatile("" : : : "memory");
}

bool HeapMoment::Take(Heap& heap) {
  const ExclusiveCheck one;
  struct Builder {
    ObjectIndex& index;
    Heap& heap;
    bool built = false;
  };
  Builder builder = {index_, heap};
  const auto build = [](void* context, const WorldStop&) {
    Builder& self = *static_cast<Builder*>(context);
    self.built = self.index.Build(self.heap);
  };
  bool stopped;
  WithHeapAtRest(heap, build, &builder, &stopped);
  return builder.built;
}

}  // namespace tcmalloc
