// SPDX-License-Identifier: BSD-3-Clause
// Prepare holds the heap; Parent and Child let it go. The contract is in the header. Handlers of
// other libraries may run while the heap is held: if they registered first, their prepare handlers
// run after ours, and their parent and child handlers before ours. They may allocate: the thread
// that holds the heap does not wait for its locks. Objects that other threads have outside of locks
// at the moment of fork are on their stacks, and the child leaks them: a few objects per thread, or
// the contents of the caches that a thread is emptying. The child takes back memory that was being
// released at that moment, since it is on record.
//
// Why fork returns although signal handlers fork. Let thread A have a lock of the heap, in a
// section that its signal handler interrupted, and let the handler fork. A's hold waits for each
// lock only for a limited time (os/spinlock.h). But before it, fork waits for locks that are not
// ours: the C library's list of files, and locks of other libraries' prepare handlers. Let thread B
// have one of them when it comes to our handler. There A waits for B, and B for the heap.
//   * B has the list of files, which our handler takes. B waits for the heap until a deadline. Then
//     it lets go of the heap and of the list, sleeps, and tries again. While B sleeps, A takes the
//     list, holds what it can, forks, and returns to its section, which frees the lock.
//   * B has a lock that our handler did not take: of another library's handler, of an outer fork
//     that the signal interrupted, or the one on handlers that glibc before 2.36 keeps while they
//     run. B cannot let it go. After the last try B forks without the heap, and its child is a
//     stray one (process/fork.h).
// Each pause and each timeout is twice as long as the one before, so that on a busy machine A runs
// during a pause, and B can hold a heap that many threads use. So B waits for the heap for a few
// seconds at most (kForkTries), and for the list while others have it.
//
// Not covered: A waits for the list of files, which another thread has in fflush(NULL). That thread
// waits for a file, whose owner waits for A's section. No thread waits in our handler, and with the
// C library's malloc such a program hangs too.
#include "process/fork.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "os/c_library.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/process.h"
#include "os/spinlock.h"
#include "os/threads.h"
#include "process/background_thread.h"
#include "process/current_thread.h"
#include "process/heap.h"
#include "process/helper_thread.h"

namespace tcmalloc {

namespace {

// How often fork tries to hold the heap, each time with twice the timeout: together 6 s. Fewer
// could give up where many threads share a processor; the child can then use little of the heap
// (process/fork.h).
constexpr int kForkTries = 7;

// Handlers of other folders, in no particular order: see kFirstLeaf. AddForkHandlers stores them
// (release), HoldHeap loads them (acquire) and copies them to `prepared`, since more may be added
// meanwhile. The copy is guarded by the registry's lock.
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
// or another hold. Also true while another thread that has the same number is in a critical
// section.
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

bool HoldHeap() { return TryHoldHeap(SpinLock::kNever).value_or(false); }

std::optional<bool> TryHoldHeap(int64_t deadline_ms) {
  Heap& heap = GlobalHeap();
  SpinLock& outermost = heap.registry.lock();
  // A signal handler that interrupted its own thread in a locked section must not wait for another
  // thread that waits for this lock.
  bool interrupted = IsInterrupted(heap);
  for (int ms = 0; interrupted && thread_numbers.MayRepeat() && ms < kForkTimeoutMs; ++ms) {
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

namespace {

// The thread that sets it registers the handlers. No other data depends on it.
constinit std::atomic<bool> handlers_installed{false};

// The prepare handler. It runs last if it was registered first; then no handler of another library
// runs after it and waits for a thread that waits for the list of files.
void Prepare() {
  // A stray child does not use the heap, nor do its children.
  if (InStrayChild()) return;
  for (int failed = 0;; ++failed) {
    StdioListLock::Lock();
    const std::optional<bool> held =
        TryHoldHeap(CoarseMilliseconds() + (int64_t{kForkTimeoutMs} << failed));
    if (held.has_value()) return;
    if (failed + 1 == kForkTries) return HoldNothing();
    StdioListLock::Unlock();
    for (int ms = 0; ms < 1 << failed; ++ms) WaitMillisecond();
  }
}

void Parent() {
  if (InStrayChild()) return;
  ReleaseHeap();
  StdioListLock::Unlock();
}

void Child() {
  if (InStrayChild()) return;
  EndStrayWatchInChild();
  const SpinLock::RanksSetAside ranks;
  Heap& heap = GlobalHeap();
  heap.memory.NoteForkedChild();
  // If a signal handler interrupted a critical section, its work is half done, and its data stay as
  // they are.
  const bool complete = HoldIsComplete();
  if (complete) heap.page_heap.address_space().RestoreAfterForkInChild();
  if (complete && HoldsHeap()) {
    heap.registry.OrphanOthersInChild(&current_slot);
  } else {
    heap.registry.OrphanOthersLater(&current_slot);
  }
  // The heap is still held, so that no thread looks for requests before the reset.
  heap.control.ResetInChild();
  const bool held = ReleaseHeapInForkedChild();
  if (complete) heap.holes.ReturnOthersInChild();
  ResetBackgroundThreadInChild();
  if (held) CallChildHandlers();
  StdioListLock::Reset();
  // This is last, since the helper's tasks and the C library's function for threads need all the
  // above.
  RestartHelperInChild();
}

}  // namespace

void InstallForkHandlers() {
  if (handlers_installed.exchange(true, std::memory_order_relaxed)) return;
  EnsureHeap();
  RegisterForkHandlers(&Prepare, &Parent, &Child);
}

namespace {

constinit const std::atomic<uint32_t> no_witness{1};

// True from the first attempt to watch on. No data depends on it.
constinit std::atomic<bool> watching{false};

}  // namespace

constinit std::atomic<const std::atomic<uint32_t>*> stray_witness{&no_witness};

bool InStrayChildSlow() { return !SpinLock::InForkHold(); }

void WatchForStrayChildren() {
  const std::atomic<uint32_t>* const watched = stray_witness.load(std::memory_order_acquire);
  if (watched->load(std::memory_order_relaxed) == 0 && !InStrayChildSlow()) {
    // In a forked child, before its handler has run.
    stray_witness.store(&no_witness, std::memory_order_release);
    return;
  }
  // In a stray child it is true already: nothing changes there.
  if (watching.load(std::memory_order_relaxed) || !CLibraryMalloc::CanAllocate() ||
      watching.exchange(true, std::memory_order_relaxed)) {
    return;
  }
  const std::atomic<uint32_t>* const word = WatchForCopies();
  if (word != nullptr) stray_witness.store(word, std::memory_order_release);
}

void EndStrayWatchInChild() {
  stray_witness.store(&no_witness, std::memory_order_release);
  watching.store(false, std::memory_order_relaxed);
}

}  // namespace tcmalloc
