// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/annotations.h"

#include <atomic>
#include <new>

#include "instruments/annotations/program_annotations.h"
#include "instruments/profiles/heap_profiler.h"
#include "os/errno_keeper.h"
#include "os/spinlock.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

constinit std::atomic<uint32_t> current_period{0};
// The period in which the last recording began.
constinit std::atomic<uint32_t> recording_period{0};

// --- Threads that are disabled -------------------------------------------------------------------

// Identifies the calling thread by the address of its slot, which no other thread has while this
// one lives.
uintptr_t ThisThread() { return reinterpret_cast<uintptr_t>(&current_slot); }

struct DisabledThread {
  // Constant once it is in the list.
  DisabledThread* next = nullptr;
  // 0 if the record is free. A thread claims the record for itself (acquire) and frees it
  // (release).
  std::atomic<uintptr_t> thread{0};
  // The number of calls of Disable without a matching Enable. Only the thread itself uses it.
  uint64_t depth = 0;
};

// A list that grows at its front (release) and never shrinks; all threads read it (acquire).
constinit std::atomic<DisabledThread*> disabled_threads{nullptr};
// The number of disabled threads. Allocating threads read it; relaxed, since each sees its own
// change.
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

// --- Fork ----------------------------------------------------------------------------------------

void AfterForkInChild() {
  ProcessRegisteredRoots().lock().ResetAfterForkInChild();
  process_ignored_addresses.lock().ResetAfterForkInChild();
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
      process_ignored_addresses.lock().HoldForFork();
      ProcessRegisteredRoots().lock().HoldForFork();
    },
    [] {
      ProcessRegisteredRoots().lock().ReleaseAfterForkInParent();
      process_ignored_addresses.lock().ReleaseAfterForkInParent();
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
  process_ignored_addresses.Add(fresh);
  return true;
}

bool UnignoreAddress(const void* address) {
  IgnoredAddress* const found =
      process_ignored_addresses.Remove(reinterpret_cast<uintptr_t>(address));
  if (found == nullptr) return false;
  GlobalHeap().arena.Free(found, sizeof(IgnoredAddress));
  return true;
}

void ForEachIgnored(AddressVisitor visit, void* context) {
  process_ignored_addresses.ForEach([&](uintptr_t address) { visit(context, address); });
}

void PrepareAnnotations() {
  if (prepared.exchange(true, std::memory_order_relaxed)) return;
  InstallForkHandlers();
  AddForkHandlers(&kForkHandlers);
}

}  // namespace tcmalloc
