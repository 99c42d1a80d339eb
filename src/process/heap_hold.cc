// SPDX-License-Identifier: BSD-3-Clause
#include "process/heap_hold.h"

#include <array>
#include <atomic>
#include <optional>

#include "base/tuning.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/thread_number.h"
#include "process/current_thread.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// Handlers of other folders, in no particular order. AddForkHandlers stores them (release),
// HoldHeap loads them (acquire) and copies them to `prepared`, since more may be added meanwhile.
// The copy is guarded by the registry's lock.
constexpr size_t kMaxHandlers = 8;
using HandlerList = std::array<const ForkHandlers*, kMaxHandlers>;
constinit std::array<std::atomic<const ForkHandlers*>, kMaxHandlers> other_handlers{};
constinit HandlerList prepared{};

void PrepareOthers() {
  for (size_t i = 0; i < kMaxHandlers; ++i) {
    prepared[i] = other_handlers[i].load(std::memory_order_acquire);
    if (prepared[i] != nullptr) prepared[i]->prepare();
  }
}

// Calls f(lock) for every lock of the heap but the registry's, in the order of the ranks.
template <typename F>
void ForEachInnerLock(Heap& heap, F f) {
  heap.central.ForEachLock(f);
  f(heap.holes.lock());
  f(heap.page_heap.lock());
  f(heap.arena.lock());
  heap.virtual_memory.ForEachLock(f);
  heap.memory.ForEachLock(f);
  f(heap.large_reports.lock());
}

// True if a signal handler of the calling thread has interrupted a critical section of the thread,
// or another hold. Also true while a thread with the same number is in a critical section.
bool IsInterrupted(Heap& heap) {
  bool interrupted = heap.registry.lock().InterruptedByThisThread();
  ForEachInnerLock(heap, [&](const auto& lock) { interrupted |= lock.InterruptedByThisThread(); });
  return interrupted;
}

void NoteHold(bool holds) {
  current_slot.empty_holds = static_cast<uint8_t>(current_slot.empty_holds << 1 | !holds);
}

// False if a lock was not free by the deadline. The deadline ends here, while the thread still has
// the outermost lock: afterwards another thread may set its own.
bool TakeInnerLocks(Heap& heap, int64_t deadline_ms) {
  const SpinLock::HoldDeadline deadline(deadline_ms);
  ForEachInnerLock(heap, [](auto& lock) { lock.HoldForFork(); });
  PrepareOthers();
  return !deadline.WasMissed();
}

// Ends the innermost hold of the thread. False if that hold held nothing.
bool EndsHold() {
  const bool empty = (current_slot.empty_holds & 1) != 0;
  current_slot.empty_holds >>= 1;
  return !empty;
}

}  // namespace

bool AddForkHandlers(const ForkHandlers* handlers) {
  for (std::atomic<const ForkHandlers*>& place : other_handlers) {
    const ForkHandlers* expected = nullptr;
    if (place.compare_exchange_strong(expected, handlers, std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
      return true;
    }
  }
  WriteToStderr(
      "tcmalloc: too many fork handlers of the library's parts; a forked child may hang\n");
  return false;
}

bool HoldHeap() { return *TryHoldHeap(SpinLock::kNever); }

std::optional<bool> TryHoldHeap(int64_t deadline_ms) {
  Heap& heap = GlobalHeap();
  SpinLock& outermost = heap.registry.lock();
  // A signal handler that interrupted its own thread in a locked section must not wait for another
  // thread that waits for this lock.
  bool interrupted = IsInterrupted(heap);
  for (int ms = 0; interrupted && thread_numbers.MayRepeat() && ms < kTuning.locks.fork_patience_ms;
       ++ms) {
    WaitMillisecond();
    interrupted = IsInterrupted(heap);
  }
  // The outermost lock is taken first: a second holder waits here until the first is done, so one
  // thread at a time holds the heap.
  const bool had = interrupted ? outermost.HeldByThisThread() : outermost.MarkedByThisThread();
  const bool holds = had || outermost.LockForFork(!interrupted, deadline_ms);
  if (!holds && !interrupted) return std::nullopt;
  NoteHold(holds);
  if (!holds) return false;
  SpinLock::BeginForkHold(!interrupted);
  if (!had) outermost.MarkHeldForFork();
  if (TakeInnerLocks(heap, deadline_ms)) return true;
  ReleaseHeap();
  return std::nullopt;
}

void HoldNothing() { NoteHold(false); }

void ReleaseHeap() {
  if (!EndsHold()) return;
  Heap& heap = GlobalHeap();
  const HandlerList others = prepared;
  SpinLock::EndForkHold();
  ForEachInnerLock(heap, [](auto& lock) { lock.ReleaseAfterForkInParent(); });
  for (const ForkHandlers* const other : others) {
    if (other != nullptr) other->parent();
  }
  heap.registry.lock().ReleaseAfterForkInParent();
}

bool HoldIsComplete() {
  return (current_slot.empty_holds & 1) == 0 && SpinLock::ForkHoldIsComplete();
}

bool HoldsHeap() { return GlobalHeap().registry.lock().HeldForForkByThisThread(); }

bool ReleaseHeapInForkedChild() {
  if (!EndsHold()) return false;
  Heap& heap = GlobalHeap();
  SpinLock::EndForkHold();
  ForEachInnerLock(heap, [](auto& lock) { lock.ResetAfterForkInChild(); });
  heap.registry.lock().ResetAfterForkInChild();
  return true;
}

void CallChildHandlers() {
  for (const ForkHandlers* const other : prepared) {
    if (other != nullptr) other->child();
  }
}

}  // namespace tcmalloc
