// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/annotations.h"

#include <atomic>
#include <new>

#include "heap/current_thread.h"
#include "heap/fork.h"
#include "heap/heap.h"
#include "heap/heap_hold.h"
#include "os/errno_keeper.h"
#include "os/spinlock.h"
#include "tools/leak/registered_roots.h"
#include "tools/profiler/recording.h"

namespace tcmalloc {
namespace {

constinit std::atomic<uint32_t> current_period{0};
// The period in which recording began last.
constinit std::atomic<uint32_t> recording_period{0};

// --- Threads that are disabled -------------------------------------------------------------------

// Identifies the calling thread: the address of its slot, which no other thread has while it lives.
uintptr_t ThisThread() { return reinterpret_cast<uintptr_t>(&current_slot); }

struct DisabledThread {
  // Constant once it is in the list.
  DisabledThread* next = nullptr;
  // 0: free. A thread claims the record for itself (acquire) and frees it (release).
  std::atomic<uintptr_t> thread{0};
  // Calls of Disable without Enable. Only the thread itself uses it.
  uint64_t depth = 0;
};

// Grows at its front (release), is read by all threads (acquire), and never shrinks.
constinit std::atomic<DisabledThread*> disabled_threads{nullptr};
// The number of disabled threads, for allocating threads; each sees its own change (relaxed).
constinit std::atomic<uint32_t> num_disabled{0};
constinit std::atomic<bool> any_was_disabled{false};

DisabledThread* FindThisThread() {
  DisabledThread* record = disabled_threads.load(std::memory_order_acquire);
  while (record != nullptr && record->thread.load(std::memory_order_relaxed) != ThisThread()) {
    record = record->next;
  }
  return record;
}

DisabledThread* ClaimRecord() {
  for (DisabledThread* record = disabled_threads.load(std::memory_order_acquire); record != nullptr;
       record = record->next) {
    uintptr_t none = 0;
    if (record->thread.compare_exchange_strong(none, ThisThread(), std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
      return record;
    }
  }
  void* const memory = ExistingHeap().arena.Allocate(sizeof(DisabledThread));
  if (memory == nullptr) return nullptr;
  auto* const fresh = new (memory) DisabledThread;
  fresh->thread.store(ThisThread(), std::memory_order_relaxed);
  DisabledThread* first = disabled_threads.load(std::memory_order_relaxed);
  do {
    fresh->next = first;
  } while (!disabled_threads.compare_exchange_weak(first, fresh, std::memory_order_release,
                                                   std::memory_order_relaxed));
  return fresh;
}

uint32_t CurrentMark() {
  const uint32_t period = current_period.load(std::memory_order_relaxed);
  if (num_disabled.load(std::memory_order_relaxed) == 0) return period;
  return FindThisThread() == nullptr ? period : period | kIgnoredMark;
}

// --- Addresses -----------------------------------------------------------------------------------

struct IgnoredAddress {
  IgnoredAddress* next = nullptr;
  uintptr_t address = 0;
};

// A program may ignore very many addresses.
constexpr size_t kNumBuckets = 256;
size_t BucketOf(uintptr_t address) { return ((address >> 3) * uint64_t{0x9e3779b97f4a7c15}) >> 56; }

constinit SpinLock annotations_lock{LockRank::kLeaks};
constinit IgnoredAddress* ignored[kNumBuckets] TC_GUARDED_BY(annotations_lock) = {};

// --- Fork ----------------------------------------------------------------------------------------

void AfterForkInChild() {
  ProcessRegisteredRoots().lock().ResetAfterForkInChild();
  annotations_lock.ResetAfterForkInChild();
  uint32_t disabled = 0;
  for (DisabledThread* record = disabled_threads.load(std::memory_order_relaxed); record != nullptr;
       record = record->next) {
    if (record->thread.load(std::memory_order_relaxed) == ThisThread()) {
      disabled = 1;
    } else {
      record->thread.store(0, std::memory_order_relaxed);
      record->depth = 0;
    }
  }
  num_disabled.store(disabled, std::memory_order_relaxed);
}

constexpr ForkHandlers kForkHandlers = {
    [] {
      annotations_lock.HoldForFork();
      ProcessRegisteredRoots().lock().HoldForFork();
    },
    [] {
      ProcessRegisteredRoots().lock().ReleaseAfterForkInParent();
      annotations_lock.ReleaseAfterForkInParent();
    },
    &AfterForkInChild,
};

constinit std::atomic<bool> prepared{false};

}  // namespace

bool BeginRecording() {
  if (RecordingRuns()) return true;
  recording_period.store(BeginPeriod(), std::memory_order_relaxed);
  return StartRecording(&CurrentMark);
}

bool RecordedSince(uint32_t period) {
  return RecordingRuns() && recording_period.load(std::memory_order_relaxed) <= period;
}

uint32_t BeginPeriod() {
  uint32_t period = current_period.load(std::memory_order_relaxed);
  while (period < kLastPeriod &&
         !current_period.compare_exchange_weak(period, period + 1, std::memory_order_acq_rel,
                                               std::memory_order_relaxed)) {
  }
  return period < kLastPeriod ? period + 1 : kLastPeriod;
}

void DisableForThisThread() {
  const ErrnoKeeper keeper;
  DisabledThread* record = FindThisThread();
  if (record == nullptr) {
    record = ClaimRecord();
    if (record == nullptr) return;
    any_was_disabled.store(true, std::memory_order_relaxed);
    num_disabled.fetch_add(1, std::memory_order_relaxed);
  }
  ++record->depth;
}

void EnableForThisThread() {
  DisabledThread* const record = FindThisThread();
  if (record == nullptr || --record->depth > 0) return;
  num_disabled.fetch_sub(1, std::memory_order_relaxed);
  record->thread.store(0, std::memory_order_release);
}

bool AnyThreadWasDisabled() { return any_was_disabled.load(std::memory_order_relaxed); }

bool IgnoreAddress(const void* address) {
  const ErrnoKeeper keeper;
  void* const memory = ExistingHeap().arena.Allocate(sizeof(IgnoredAddress));
  if (memory == nullptr) return false;
  auto* const fresh = new (memory) IgnoredAddress;
  fresh->address = reinterpret_cast<uintptr_t>(address);
  const SpinLockHolder holder(annotations_lock);
  IgnoredAddress*& bucket = ignored[BucketOf(fresh->address)];
  fresh->next = bucket;
  bucket = fresh;
  return true;
}

bool UnignoreAddress(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  IgnoredAddress* found;
  {
    const SpinLockHolder holder(annotations_lock);
    IgnoredAddress** link = &ignored[BucketOf(wanted)];
    while (*link != nullptr && (*link)->address != wanted) link = &(*link)->next;
    found = *link;
    if (found != nullptr) *link = found->next;
  }
  if (found == nullptr) return false;
  GlobalHeap().arena.Free(found, sizeof(IgnoredAddress));
  return true;
}

void ForEachIgnored(AddressVisitor visit, void* context) {
  const SpinLockHolder holder(annotations_lock);
  for (const IgnoredAddress* entry : ignored) {
    for (; entry != nullptr; entry = entry->next) visit(context, entry->address);
  }
}

void PrepareAnnotations() {
  if (prepared.exchange(true, std::memory_order_relaxed)) return;
  InstallForkHandlers();
  AddForkHandlers(&kForkHandlers);
}

}  // namespace tcmalloc
