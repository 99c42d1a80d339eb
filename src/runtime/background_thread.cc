// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/background_thread.h"

#include "os/blocked_signals.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/futex.h"
#include "runtime/heap.h"

namespace tcmalloc {
namespace {

// A start costs some tens of microseconds: one in so long is not noticed.
constexpr int64_t kStartAgainMs = 10'000;

// Who does the work. Changed by compare-and-swap from kNobody and from kStoppable, so that one
// thread starts or stops at a time; acquire and release hand `thread` and what the thread has done
// from each to the next.
enum Worker : uint32_t { kNobody, kStarting, kStoppable, kStopping, kForGood };
constinit std::atomic<uint32_t> worker{kNobody};
constinit std::atomic<bool> allowed{false};
// The program's threads that were created, less those whose end was noticed. With `worker`: see the
// header, When it ends.
constinit std::atomic<int32_t> created{0};
// Of the last start or try. Two that read it at once are told apart by `worker` (relaxed).
constinit std::atomic<int64_t> started_ms{0};

// Written while the state is kStarting, read while it is kStopping.
constinit pthread_t thread{};

// The thread has come to its loop; it is to leave it. Futexes. What was written before is seen by
// who reads the 1 (release, acquire).
constinit std::atomic<uint32_t> arrived{0};
constinit std::atomic<uint32_t> stop{0};
// See the header: Sleep.
constinit std::atomic<uint32_t> frees{0};
constinit std::atomic<bool> asleep{false};

void* RunTurns(void*) {
  arrived.store(1, std::memory_order_release);
  FutexWakeAll(&arrived);
  Heap& heap = GlobalHeap();
  BackgroundTurns turns(&stop);
  while (stop.load(std::memory_order_acquire) == 0) {
    const uint32_t seen = frees.load(std::memory_order_seq_cst);
    const int pause_ms = turns.Take(heap, seen);
    if (pause_ms != BackgroundTurns::kNever) {
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

bool Begin(Worker as) {
  uint32_t nobody = kNobody;
  return allowed.load(std::memory_order_relaxed) &&
         worker.compare_exchange_strong(nobody, as, std::memory_order_acquire,
                                        std::memory_order_relaxed);
}

void Started(Worker as) {
  GlobalHeap().page_heap.SetPromptRelease(false);
  worker.store(as, std::memory_order_seq_cst);
}

void Ended() {
  GlobalHeap().page_heap.SetPromptRelease(true);
  worker.store(kNobody, std::memory_order_release);
}

// Every thread but one has ended, as far as is known.
bool IsAlone(Heap& heap) {
  return created.load(std::memory_order_seq_cst) <= 0 && !heap.registry.HasSeveral();
}

void Stop() {
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  uint32_t stoppable = kStoppable;
  if (!worker.compare_exchange_strong(stoppable, kStopping, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
    return;
  }
  stop.store(1, std::memory_order_seq_cst);
  FutexWakeOne(&stop);
  WakeIfAsleep();
  pthread_join(thread, nullptr);
  Ended();
}

}  // namespace

int BackgroundTurns::Take(Heap& heap, uint32_t frees_now) {
  quiet_turns_ = frees_now == frees_ ? quiet_turns_ + 1 : 0;
  frees_ = frees_now;
  const bool quiet = quiet_turns_ > 0;
  bool released = false;
  if (heap.page_heap.release_pending()) {
    // Of caches the first look may only see how they are.
    if (quiet && quiet_turns_ <= kFlushTurn) heap.registry.FlushIdle();
    if (quiet_turns_ == kFlushTurn) heap.central.FlushTransferCaches();
    // Slice by slice: what is due is decided anew for each, so that a program that starts to
    // allocate again keeps the rest.
    while ((stop_ == nullptr || stop_->load(std::memory_order_relaxed) == 0) &&
           heap.page_heap.ReleaseDue(PageHeap::kReleaseSlice, quiet) > Length(0)) {
      released = true;
    }
  }
  return quiet_turns_ >= kLastTurn && !released ? kNever : kTurnMs;
}

void ProcessBackgroundActions(Heap& heap) {
  for (BackgroundTurns turns;;) {
    turns.Take(heap, FreesSoFar());
    SleepMilliseconds(BackgroundTurns::kTurnMs);
  }
}

void AllowBackgroundThread() { allowed.store(true, std::memory_order_relaxed); }

bool StartBackgroundThread() {
  const BlockedSignals blocked;
  if (!Begin(kStarting)) return true;
  if (!StartDetachedThread(&RunTurns, "tcmalloc")) {
    worker.store(kNobody, std::memory_order_relaxed);
    return false;
  }
  Started(kForGood);
  return true;
}

void OnThreadStarting() { created.fetch_add(1, std::memory_order_seq_cst); }

void OnThreadNotStarted() { created.fetch_sub(1, std::memory_order_seq_cst); }

void OnThreadStarted(CreateThreadFunction create) {
  if (worker.load(std::memory_order_relaxed) != kNobody || !HeapExists()) return;
  Heap& heap = GlobalHeap();
  const int64_t now_ms = CoarseMilliseconds();
  const int64_t last_ms = started_ms.load(std::memory_order_relaxed);
  if (last_ms != 0 && now_ms - last_ms < kStartAgainMs &&
      created.load(std::memory_order_relaxed) <= 1) {
    return;
  }
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  if (!Begin(kStarting)) return;
  started_ms.store(now_ms, std::memory_order_relaxed);
  arrived.store(0, std::memory_order_relaxed);
  stop.store(0, std::memory_order_relaxed);
  if (!StartJoinableThread(create, &RunTurns, &thread)) {
    worker.store(kNobody, std::memory_order_release);
    return;
  }
  while (arrived.load(std::memory_order_acquire) == 0) FutexWait(&arrived, 0);
  Started(kStoppable);
  if (IsAlone(heap)) Stop();
}

void OnThreadEnds(Heap& heap) {
  created.fetch_sub(1, std::memory_order_seq_cst);
  if (worker.load(std::memory_order_seq_cst) == kStoppable && IsAlone(heap)) Stop();
}

bool TakeOverBackgroundWork() {
  if (!Begin(kStarting)) return false;
  Started(kForGood);
  return true;
}

uint32_t FreesSoFar() { return frees.load(std::memory_order_relaxed); }

void NoteFrees() {
  const uint32_t now = worker.load(std::memory_order_relaxed);
  if (now == kStoppable || now == kForGood) WakeIfAsleep();
}

void ForgetBackgroundThreadInChild() {
  asleep.store(false, std::memory_order_relaxed);
  created.store(0, std::memory_order_relaxed);
  started_ms.store(0, std::memory_order_relaxed);
  Ended();
}

}  // namespace tcmalloc
