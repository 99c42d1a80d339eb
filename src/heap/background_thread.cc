// SPDX-License-Identifier: BSD-3-Clause
#include "heap/background_thread.h"

#include <pthread.h>

#include <atomic>

#include "base/tuning.h"
#include "cache/registry_totals.h"
#include "heap/heap.h"
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
constinit std::atomic<bool> asleep{false};

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
    asleep.store(true, std::memory_order_seq_cst);
    if (stop.load(std::memory_order_seq_cst) == 0) FutexWait(&frees, seen);
    asleep.store(false, std::memory_order_relaxed);
  }
  return nullptr;
}

void WakeIfAsleep() {
  frees.fetch_add(1, std::memory_order_seq_cst);
  if (asleep.load(std::memory_order_seq_cst) && asleep.exchange(false, std::memory_order_relaxed)) {
    FutexWakeOne(&frees);
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
  if (created.load(std::memory_order_relaxed) <= 1) return pause_ms >= kRules.restart_alone_ms;
  return before < kRules.quick_starts || pause_ms >= kRules.restart_ms;
}

void SetWorker(Worker started) {
  GlobalHeap().page_heap.hints().prompt_release.Set(false);
  worker.store(started, std::memory_order_seq_cst);
}

void ClearWorker() {
  GlobalHeap().page_heap.hints().prompt_release.Set(true);
  worker.store(kNone, std::memory_order_release);
}

// Every thread of the program but one has ended, as far as is known.
bool IsSingleThreaded(Heap& heap) {
  return created.load(std::memory_order_seq_cst) <= 0 && !HasSeveralCaches(heap.registry);
}

// pthread_join is a cancellation point, and a thread that ends may be cancelled once more.
void Join() {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_join(thread, nullptr);
  pthread_setcancelstate(before, nullptr);
}

void Stop() {
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  uint32_t joinable = kJoinable;
  if (!worker.compare_exchange_strong(joinable, kStopping, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
    return;
  }
  stop.store(1, std::memory_order_seq_cst);
  FutexWakeOne(&stop);
  WakeIfAsleep();
  Join();
  ClearWorker();
  // What the thread would have released later: all but what a prompt heap keeps.
  PageHeap& page_heap = GlobalHeap().page_heap;
  while (page_heap.ReleaseDue(PageHeap::kReleaseSlice, true) > Length(0)) {
  }
}

}  // namespace

void AllowBackgroundThread() {
  allowed.store(true, std::memory_order_relaxed);
  if (created.load(std::memory_order_relaxed) > 0) OnThreadStarted(&pthread_create);
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

void OnThreadStarting() { created.fetch_add(1, std::memory_order_seq_cst); }

void OnThreadNotStarted() { created.fetch_sub(1, std::memory_order_seq_cst); }

void OnThreadStarted(CreateThreadFunction create) {
  if (worker.load(std::memory_order_relaxed) != kNone || !HeapExists()) return;
  Heap& heap = GlobalHeap();
  const int64_t now_ms = CoarseMilliseconds();
  if (!IsTimeToStart(now_ms) || heap.page_heap.governor()->release_rate() <= 0) return;
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  if (!BeginStart()) return;
  started_ms.store(now_ms, std::memory_order_relaxed);
  starts.fetch_add(1, std::memory_order_relaxed);
  arrived.store(0, std::memory_order_relaxed);
  stop.store(0, std::memory_order_relaxed);
  if (!StartJoinableThread(create, &Run, &thread)) {
    worker.store(kNone, std::memory_order_release);
    return;
  }
  while (arrived.load(std::memory_order_acquire) == 0) FutexWait(&arrived, 0);
  SetWorker(kJoinable);
  if (IsSingleThreaded(heap)) Stop();
}

void OnThreadEnds(Heap& heap) {
  created.fetch_sub(1, std::memory_order_seq_cst);
  if (worker.load(std::memory_order_seq_cst) == kJoinable && IsSingleThreaded(heap)) Stop();
}

bool ClaimIdleRelease() {
  if (!BeginStart()) return false;
  SetWorker(kPermanent);
  return true;
}

void OnPagesFreed() { WakeIfAsleep(); }

uint32_t NumFrees() { return frees.load(std::memory_order_relaxed); }

void ResetBackgroundThreadInChild() {
  asleep.store(false, std::memory_order_relaxed);
  created.store(0, std::memory_order_relaxed);
  starts.store(0, std::memory_order_relaxed);
  ClearWorker();
}

}  // namespace tcmalloc
