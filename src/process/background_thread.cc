// SPDX-License-Identifier: BSD-3-Clause
#include "process/background_thread.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "base/config.h"
#include "base/tuned.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/threads.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/release.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

// Which thread runs idle release: none, the joinable background thread, or one that does so until
// the process ends. The states kNone and kJoinable are left by a compare-and-swap, so that one
// thread at a time starts or stops it. Acquire and release pass `thread`, and the work of the
// background thread, from one such thread to the next.
enum Worker : uint32_t { kNone, kStarting, kJoinable, kStopping, kPermanent };
constinit std::atomic<uint32_t> worker{kNone};
constinit std::atomic<bool> allowed{false};
// The thread that loaded the library, as a rule that of main; in a forked child, the thread that
// forked.
constinit pthread_t main_thread{};
// True when that thread has ended, by pthread_exit. See `created`.
constinit std::atomic<bool> main_has_ended{false};
// The number of the program's threads that were created and have not ended. A thread that it
// contains knows that by its slot. The header explains its order with `worker` under "End".
constinit std::atomic<int32_t> created{0};
// The number of attempts to start the joinable thread, and the time of the last one. Relaxed: if
// two threads read them at once, `worker` lets only one of them continue.
constinit std::atomic<uint32_t> starts{0};
constinit std::atomic<int64_t> started_ms{0};

// Written in the state kStarting, read in kStopping.
constinit pthread_t thread{};

// `arrived` is a futex that is 1 when the thread has reached its loop; `stop` is 1 when it must
// leave the loop. Release and acquire: a thread that reads the 1 sees what was written before it.
constinit std::atomic<uint32_t> arrived{0};
constinit std::atomic<uint32_t> stop{0};
// The values of `asleep`. Any other value with the bit of kUntilFrees means that the tcmalloc
// command wakes the thread.
enum Asleep : uint32_t { kAwake = 0, kUntilFrees = 1, kForATime = 2 };
// See the header: Sleep.
constinit std::atomic<uint32_t> frees{0};
constinit std::atomic<uint32_t> asleep{kAwake};

// The lasting threads that were ever started, from the first place on. A place is written once
// (release), and read with acquire.
constinit std::array<std::atomic<LastingThread*>, 3> lasting_threads{};

// Sleeps until the next pass, if one is needed; otherwise until pages are freed after `frees` was
// `seen`. Returns earlier when the thread must stop, or when another process makes a request.
void Sleep(Heap& heap, bool needs_pass, uint32_t seen) {
  const uint32_t how = needs_pass ? kForATime : kUntilFrees;
  asleep.store(how, std::memory_order_seq_cst);
  if (stop.load(std::memory_order_seq_cst) == 0 && !heap.control.HasRequest()) {
    if (needs_pass) {
      FutexWaitFor(&asleep, how, kIdlePassMs);
    } else if (frees.load(std::memory_order_seq_cst) == seen) {
      FutexWait(&asleep, how);
    }
  }
  asleep.store(kAwake, std::memory_order_relaxed);
}

void* Run(void*) {
  BeginLastingThread();
  Heap& heap = GlobalHeap();
  const void* const frame = __builtin_frame_address(0);
  heap.control.BeginListening(frame, &asleep);
  arrived.store(1, std::memory_order_release);
  FutexWakeAll(&arrived);
  IdleRelease idle_release(&stop);
  while (stop.load(std::memory_order_acquire) == 0) {
    const uint32_t seen = frees.load(std::memory_order_seq_cst);
    const bool needs_pass = idle_release.RunPass(heap, seen);
    do {
      Sleep(heap, needs_pass, seen);
    } while (heap.control.HasRequest() && heap.control.Serve(heap));
  }
  heap.control.EndListening(frame);
  return nullptr;
}

void WakeIfAsleep() {
  frees.fetch_add(1, std::memory_order_seq_cst);
  if ((asleep.load(std::memory_order_seq_cst) & kUntilFrees) != 0 &&
      asleep.exchange(kAwake, std::memory_order_seq_cst) != kAwake) {
    FutexWakeAll(&asleep);
  }
}

bool BeginStart() {
  uint32_t none = kNone;
  return allowed.load(std::memory_order_relaxed) &&
         worker.compare_exchange_strong(none, kStarting, std::memory_order_acquire,
                                        std::memory_order_relaxed);
}

// The first kQuickStarts times the background thread starts without delay, later at most once every
// kRestartMs. A start and an end cost some 100 us. With 16 quick starts mstress took 1.11 of the
// time without the thread, with 4 times 1.01 (decision 0033).
constexpr uint32_t kQuickStarts = Tuned(4, 1, 1000);
constexpr int64_t kRestartMs = Tuned(20, 0, 10'000);

bool IsTimeToStart(int64_t now_ms) {
  return starts.load(std::memory_order_relaxed) < kQuickStarts ||
         now_ms - started_ms.load(std::memory_order_relaxed) >= kRestartMs;
}

void SetWorker(Worker started) {
  GlobalHeap().page_heap.hints().unattended.Set(false);
  worker.store(started, std::memory_order_seq_cst);
}

void ClearWorker() {
  GlobalHeap().page_heap.hints().unattended.Set(true);
  worker.store(kNone, std::memory_order_release);
  FutexWakeAll(&worker);
}

// True if every thread of the program but that of main has ended, as far as is known: threads that
// are not counted may have caches.
bool OthersHaveEnded() {
  // Orders the change of the number of caches by a thread that is not counted.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const size_t of_main = main_has_ended.load(std::memory_order_seq_cst) ? 0 : 1;
  return created.load(std::memory_order_seq_cst) <= 0 &&
         GlobalHeap().registry.all().of_threads.value() <= of_main;
}

// Makes the background thread leave its loop.
void Stop() {
  stop.store(1, std::memory_order_seq_cst);
  asleep.exchange(kAwake, std::memory_order_seq_cst);
  FutexWakeAll(&asleep);
}

// Cancellation is disabled, because pthread_join is a cancellation point, and a thread that is
// ending may be cancelled again.
void Join(pthread_t ending) {
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_join(ending, nullptr);
  pthread_setcancelstate(before, nullptr);
}

// Stops the background thread if it must end. True if it has ended.
bool StopIfDue() {
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  while (OthersHaveEnded()) {
    uint32_t joinable = kJoinable;
    if (!worker.compare_exchange_strong(joinable, kStopping, std::memory_order_seq_cst,
                                        std::memory_order_relaxed)) {
      return false;
    }
    if (OthersHaveEnded()) {
      Stop();
      Join(thread);
      ClearWorker();
      return true;
    }
    // The program has created threads since the first test; they found this background thread and
    // started none. One that ended before this store has left the stop to this thread.
    worker.store(kJoinable, std::memory_order_seq_cst);
    FutexWakeAll(&worker);
  }
  return false;
}

// Stops the lasting threads for good, and waits for their ends.
void StopLastingThreads() {
  if (program_has_ended.exchange(1, std::memory_order_seq_cst) != 0) return;
  const ErrnoKeeper keeper;
  const BlockedSignals blocked;
  FutexWakeAll(&program_has_ended);
  for (const std::atomic<LastingThread*>& place : lasting_threads) {
    LastingThread* const lasting = place.load(std::memory_order_acquire);
    if (lasting == nullptr) break;
    while (lasting->state.load(std::memory_order_seq_cst) == LastingThread::kStarting) {
      FutexWait(&lasting->state, LastingThread::kStarting);
    }
    if (lasting->state.load(std::memory_order_acquire) == LastingThread::kNone) continue;
    lasting->wake();
    Join(lasting->thread);
    lasting->state.store(LastingThread::kNone, std::memory_order_relaxed);
  }
  if (worker.load(std::memory_order_relaxed) == kPermanent) ClearWorker();
}

// Finds the place of the lasting thread, or gives it one.
void AddToLastingThreads(LastingThread* lasting) {
  for (std::atomic<LastingThread*>& place : lasting_threads) {
    LastingThread* there = nullptr;
    if (place.compare_exchange_strong(there, lasting, std::memory_order_acq_rel,
                                      std::memory_order_acquire) ||
        there == lasting) {
      return;
    }
  }
  TC_CHECK(false);
}

void SetState(LastingThread* lasting, LastingThread::State state) {
  lasting->state.store(state, std::memory_order_seq_cst);
  FutexWakeAll(&lasting->state);
}

// Starts the background thread by the function `create`, if it is time.
void StartIfDue(CreateThreadFunction create) {
  if (create == nullptr || !HeapExists() || !allowed.load(std::memory_order_relaxed) || HoldsHeap())
    return;
  // A thread that ends is stopping the background thread; it does not see the program's next
  // thread.
  while (worker.load(std::memory_order_acquire) == kStopping) FutexWait(&worker, kStopping);
  if (worker.load(std::memory_order_relaxed) != kNone) return;
  Heap& heap = GlobalHeap();
  const int64_t now_ms = CoarseMilliseconds();
  // With the setting `check`, threads have no caches that this thread could flush.
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

constinit LastingThread started_at_load = {.run = &Run, .name = "tcmalloc", .wake = &Stop};

}  // namespace

constinit std::atomic<uint32_t> program_has_ended{0};

bool StartLastingThread(LastingThread* lasting) {
  const BlockedSignals blocked;
  AddToLastingThreads(lasting);
  // Either StopLastingThreads sees this state and waits, or this thread sees that the program has
  // ended.
  SetState(lasting, LastingThread::kStarting);
  if (program_has_ended.load(std::memory_order_seq_cst) != 0 ||
      !StartJoinableThread(&pthread_create, lasting->run, &lasting->thread)) {
    SetState(lasting, LastingThread::kNone);
    return false;
  }
  pthread_setname_np(lasting->thread, lasting->name);
  SetState(lasting, LastingThread::kRuns);
  return true;
}

void BeginLastingThread() {
  if (current_slot.is_counted != 0) created.fetch_sub(1, std::memory_order_seq_cst);
  current_slot.is_counted = 0;
  // It gets no cache, which would keep it.
  current_slot.phase = ThreadSlot::Phase::kFinished;
}

void NoteMainThread() {
  main_thread = pthread_self();
  main_has_ended.store(false, std::memory_order_relaxed);
  // Its end must be noticed even if it has no cache. And a thread that forks at its own end may
  // have been through the hook.
  ThreadExitHook::Arm(&current_slot);
}

void AllowBackgroundThread() {
  allowed.store(true, std::memory_order_seq_cst);
  if (created.load(std::memory_order_relaxed) > 0) StartIfDue(&pthread_create);
}

bool StartBackgroundThread() {
  const BlockedSignals blocked;
  if (!BeginStart()) return true;
  if (!StartLastingThread(&started_at_load)) {
    worker.store(kNone, std::memory_order_relaxed);
    return false;
  }
  SetWorker(kPermanent);
  return true;
}

void OnThreadStarting(CreateThreadFunction create) {
  if (InStrayChild()) return;
  created.fetch_add(1, std::memory_order_seq_cst);
  StartIfDue(create);
}

bool OnThreadNotStarted() {
  if (InStrayChild()) return false;
  created.fetch_sub(1, std::memory_order_seq_cst);
  return StopIfDue();
}

void OnThreadBegins() { current_slot.is_counted = 1; }

void OnThreadEnds() {
  if (current_slot.is_counted != 0) {
    current_slot.is_counted = 0;
    created.fetch_sub(1, std::memory_order_seq_cst);
  }
  // The library may have been loaded by another thread. (pthread_equal is a call without
  // optimisation.)
  if (pthread_self() == main_thread && ThreadId() == ProcessId()) {
    main_has_ended.store(true, std::memory_order_seq_cst);
  }
  if (worker.load(std::memory_order_seq_cst) == kJoinable) StopIfDue();
  if (main_has_ended.load(std::memory_order_seq_cst) && OthersHaveEnded()) StopLastingThreads();
}

bool TakeIdleRelease() {
  if (!BeginStart()) return false;
  SetWorker(kPermanent);
  return true;
}

void OnPagesFreed() { WakeIfAsleep(); }

uint32_t NumFrees() { return frees.load(std::memory_order_relaxed); }

void ResetBackgroundThreadInChild() {
  NoteMainThread();
  program_has_ended.store(0, std::memory_order_relaxed);
  for (const std::atomic<LastingThread*>& place : lasting_threads) {
    LastingThread* const lasting = place.load(std::memory_order_relaxed);
    if (lasting != nullptr) lasting->state.store(LastingThread::kNone, std::memory_order_relaxed);
  }
  asleep.store(kAwake, std::memory_order_relaxed);
  created.store(0, std::memory_order_relaxed);
  current_slot.is_counted = 0;
  starts.store(0, std::memory_order_relaxed);
  ClearWorker();
}

}  // namespace tcmalloc
