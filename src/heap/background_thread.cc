// SPDX-License-Identifier: BSD-3-Clause
#include "heap/background_thread.h"

#include <pthread.h>

#include <atomic>

#include "base/tuning.h"
#include "cache/registry_totals.h"
#include "heap/heap.h"
#include "heap/heap_hold.h"
#include "heap/idle_release.h"
#include "os/blocked_signals.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/futex.h"

namespace tcmalloc {
namespace {

// Which thread runs idle release: none, the joinable background thread, or one that does so until
// the process ends. Changed by compare-and-swap from kNone and from kJoinable, so that one thread
// starts or stops at a time; acquire and release pass `thread` and what the thread has done from
// each to the next.
enum Worker : uint32_t { kNone, kStarting, kJoinable, kStopping, kPermanent };
constinit std::atomic<uint32_t> worker{kNone};
constinit std::atomic<bool> allowed{false};
// The thread at whose end by pthread_exit no background thread may remain: that of main, or in a
// forked child the one that forked. Written while there is one thread.
constinit pthread_t main_thread{};
// The program's threads that were created, less those whose end was noticed. With `worker`: see the
// header, End.
constinit std::atomic<int32_t> created{0};
// Attempts to start the joinable thread, and when the last one was. Of two threads that read them
// at once `worker` lets one pass (relaxed).
constinit std::atomic<uint32_t> starts{0};
constinit std::atomic<int64_t> started_ms{0};

// Written in kStarting, read in kStopping.
constinit pthread_t thread{};

// Futexes: the thread has reached its loop; it is to leave it. What was written before is visible
// to the thread that reads the 1 (release, acquire).
constinit std::atomic<uint32_t> arrived{0};
constinit std::atomic<uint32_t> stop{0};
// See the header: Sleep.
constinit std::atomic<uint32_t> frees{0};
constinit std::atomic<uint32_t> asleep{0};

void* Run(void*) {
  arrived.store(1, std::memory_order_release);
  FutexWakeAll(&arrived);
  Heap& heap = GlobalHeap();
  IdleRelease idle_release(&stop);
  while (stop.load(std::memory_order_acquire) == 0) {
    const uint32_t seen = frees.load(std::memory_order_seq_cst);
    const int pause_ms = idle_release.RunPass(heap, seen);
    if (pause_ms != IdleRelease::kUntilFrees) {
      FutexWaitFor(&stop, 0, pause_ms);
      continue;
    }
    asleep.store(1, std::memory_order_seq_cst);
    if (stop.load(std::memory_order_seq_cst) == 0 &&
        frees.load(std::memory_order_seq_cst) == seen) {
      FutexWait(&asleep, 1);
    }
    asleep.store(0, std::memory_order_relaxed);
  }
  return nullptr;
}

void WakeIfAsleep() {
  frees.fetch_add(1, std::memory_order_seq_cst);
  if (asleep.load(std::memory_order_seq_cst) != 0 &&
      asleep.exchange(0, std::memory_order_seq_cst) != 0) {
    FutexWakeAll(&asleep);
  }
}

bool BeginStart() {
  uint32_t none = kNone;
  return allowed.load(std::memory_order_relaxed) &&
         worker.compare_exchange_strong(none, kStarting, std::memory_order_acquire,
                                        std::memory_order_relaxed);
}

// A program that creates and joins threads again and again does not pay for a start each time.
bool IsTimeToStart(int64_t now_ms) {
  constexpr auto& kRules = kTuning.idle_release;
  const int64_t pause_ms = now_ms - started_ms.load(std::memory_order_relaxed);
  const uint32_t before = starts.load(std::memory_order_relaxed);
  if (before == 0) return true;
  if (created.load(std::memory_order_relaxed) <= 1) {
    return before < kRules.quick_starts_alone || pause_ms >= kRules.restart_alone_ms;
  }
  return before < kRules.quick_starts || pause_ms >= kRules.restart_ms;
}

void SetWorker(Worker started) {
  GlobalHeap().page_heap.hints().prompt_release.Set(false);
  worker.store(started, std::memory_order_seq_cst);
}

void ClearWorker() {
  GlobalHeap().page_heap.hints().prompt_release.Set(true);
  worker.store(kNone, std::memory_order_release);
  FutexWakeAll(&worker);
}

// Every thread of the program but one has ended, as far as is known; or that of main has, and the
// process ends with the last of the others, which may end unnoticed.
bool IsToEnd() {
  return !allowed.load(std::memory_order_seq_cst) ||
         (created.load(std::memory_order_seq_cst) <= 0 &&
          GlobalHeap().registry.all().of_threads.value() <= 1);
}

// pthread_join is a cancellation point, and a thread that ends may be cancelled once more.
void Join() {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_join(thread, nullptr);
  pthread_setcancelstate(before, nullptr);
}

// Releases what nobody may release later. After a long life: what the thread would have released,
// all but what a prompt heap keeps. After a short one: what exceeds the retention total's part for
// recent demand, since most programs whose threads end within seconds end themselves, or create
// the next ones.
void ReleaseAtStop() {
  PageHeap& page_heap = GlobalHeap().page_heap;
  const int64_t life_ms = CoarseMilliseconds() - started_ms.load(std::memory_order_relaxed);
  if (life_ms >= kTuning.release.memory_ms) {
    while (page_heap.ReleaseDue(PageHeap::kReleaseSlice, true) > Length(0)) {
    }
    return;
  }
  const size_t free_bytes = page_heap.GetStats().free_backed_bytes;
  const size_t kept_bytes = page_heap.Shares().total / kTuning.retention.prompt_part;
  if (free_bytes > kept_bytes) page_heap.ReleaseAtLeast(Length::ForBytes(free_bytes - kept_bytes));
}

// Stops the background thread if it is to end. True when it has.
bool StopIfDue() {
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  uint32_t joinable = kJoinable;
  if (!IsToEnd() || !worker.compare_exchange_strong(joinable, kStopping, std::memory_order_seq_cst,
                                                    std::memory_order_relaxed)) {
    return false;
  }
  // The program may have created threads since, which found the thread and started none.
  if (!IsToEnd()) {
    worker.store(kJoinable, std::memory_order_seq_cst);
    FutexWakeAll(&worker);
    return false;
  }
  stop.store(1, std::memory_order_seq_cst);
  FutexWakeAll(&stop);
  asleep.exchange(0, std::memory_order_seq_cst);
  FutexWakeAll(&asleep);
  Join();
  ClearWorker();
  ReleaseAtStop();
  return true;
}

// Starts the background thread if it is time, by the function `create`.
void StartIfDue(CreateThreadFunction create) {
  if (create == nullptr || !HeapExists() || !allowed.load(std::memory_order_relaxed) || HoldsHeap())
    return;
  // A thread that ends is stopping one; it does not see the program's next thread.
  while (worker.load(std::memory_order_acquire) == kStopping) FutexWait(&worker, kStopping);
  if (worker.load(std::memory_order_relaxed) != kNone) return;
  Heap& heap = GlobalHeap();
  const int64_t now_ms = CoarseMilliseconds();
  // With `check` threads have no caches, so their ends are not noticed.
  if (!IsTimeToStart(now_ms) || heap.settings.check ||
      heap.page_heap.governor()->release_rate() <= 0) {
    return;
  }
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  if (!BeginStart()) return;
  started_ms.store(now_ms, std::memory_order_relaxed);
  starts.fetch_add(1, std::memory_order_relaxed);
  arrived.store(0, std::memory_order_relaxed);
  stop.store(0, std::memory_order_relaxed);
  if (!StartJoinableThread(create, &Run, &thread)) {
    worker.store(kNone, std::memory_order_release);
    FutexWakeAll(&worker);
    return;
  }
  while (arrived.load(std::memory_order_acquire) == 0) FutexWait(&arrived, 0);
  SetWorker(kJoinable);
  StopIfDue();
}

}  // namespace

void AllowBackgroundThread() {
  main_thread = pthread_self();
  allowed.store(true, std::memory_order_seq_cst);
  if (created.load(std::memory_order_relaxed) > 0) StartIfDue(&pthread_create);
}

bool StartBackgroundThread() {
  const BlockedSignals blocked;
  if (!BeginStart()) return true;
  if (!StartDetachedThread(&Run, "tcmalloc")) {
    worker.store(kNone, std::memory_order_relaxed);
    return false;
  }
  SetWorker(kPermanent);
  return true;
}

void OnThreadStarting(CreateThreadFunction create) {
  created.fetch_add(1, std::memory_order_seq_cst);
  StartIfDue(create);
}

bool OnThreadNotStarted() {
  created.fetch_sub(1, std::memory_order_seq_cst);
  return StopIfDue();
}

void OnThreadEnds() {
  created.fetch_sub(1, std::memory_order_seq_cst);
  if (pthread_equal(pthread_self(), main_thread)) {
    allowed.store(false, std::memory_order_seq_cst);
  }
  if (worker.load(std::memory_order_seq_cst) == kJoinable) StopIfDue();
}

bool ClaimIdleRelease() {
  if (!BeginStart()) return false;
  SetWorker(kPermanent);
  return true;
}

void OnPagesFreed() { WakeIfAsleep(); }

uint32_t NumFrees() { return frees.load(std::memory_order_relaxed); }

void ResetBackgroundThreadInChild() {
  main_thread = pthread_self();
  asleep.store(0, std::memory_order_relaxed);
  created.store(0, std::memory_order_relaxed);
  starts.store(0, std::memory_order_relaxed);
  ClearWorker();
}

}  // namespace tcmalloc
