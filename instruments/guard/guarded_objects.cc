// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/guard/guarded_objects.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>

#include "base/size_classes.h"
#include "base/text.h"
#include "instruments/guard/guard_pool.h"
#include "instruments/profiles/sample_table.h"
#include "instruments/profiles/sampler.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/memory/virtual_memory.h"
#include "os/process.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// Held while the pool is published, so that this happens once.
constinit SpinLock pool_lock{LockRank::kInit};
// The number of samples that could have been guarded. Relaxed, since no other data depends on it.
constinit std::atomic<size_t> candidates{0};

// In a statically linked program these frames are left out: FreeGuarded and the slow path.
constexpr size_t kFreeStaticSkip = 2;

GuardPool* PoolOf(const Heap& heap) {
  return static_cast<GuardPool*>(heap.guarded.pool.load(std::memory_order_acquire));
}

GuardPool* ExistingPool() { return HeapExists() ? PoolOf(GlobalHeap()) : nullptr; }

void PrepareForFork() {
  if (GuardPool* const pool = ExistingPool()) pool->lock().HoldForFork();
}

void AfterForkInParent() {
  if (GuardPool* const pool = ExistingPool()) pool->lock().ReleaseAfterForkInParent();
}

// Frees the slots of objects that threads of the parent were allocating or freeing. Their samples
// stay in the child's profiles, since it is unknown whether they were removed already.
void AfterForkInChild() {
  GuardPool* const pool = ExistingPool();
  if (pool == nullptr) return;
  pool->lock().ResetAfterForkInChild();
  pool->ResetErrorInChild();
  // A signal handler that interrupted a critical section of this pool forked, so its data stay as
  // they are.
  if (pool->lock().HeldByThisThread()) return;
  pool->FreeOthersInChild([](GuardSlot& slot) {
    slot.span.sample = nullptr;
    static_cast<void>(MakeInaccessible(slot.place.first(), slot.place.page_bytes));
  });
}

constexpr ForkHandlers kForkHandlers = {&PrepareForFork, &AfterForkInParent, &AfterForkInChild};

// Maps the pool, and its records after it. False when the OS refuses.
bool MakePool(Heap& heap) {
  GuardLayout layout(heap.virtual_memory.hardware_page_size());
  const size_t page = heap.virtual_memory.hardware_page_size();
  const size_t slots_bytes = GuardLayout::kSlots * sizeof(GuardSlot);
  const size_t record_bytes = (sizeof(GuardPool) + slots_bytes + page - 1) / page * page;
  const Mapping mapping =
      heap.virtual_memory.Map(layout.bytes() + record_bytes, layout.alignment());
  if (mapping.start == nullptr) return false;
  const auto start = reinterpret_cast<uintptr_t>(mapping.start);
  layout.SetStart(start);
  char* const records = static_cast<char*>(mapping.start) + layout.bytes();
  if (!MakeInaccessible(mapping.start, layout.bytes())) {
    static_cast<void>(heap.virtual_memory.Unmap(mapping.start, mapping.bytes));
    return false;
  }
  // The pool has the alignment of its slots.
  static_assert(sizeof(GuardSlot) % alignof(GuardPool) == 0);
  auto* const pool = new (records + slots_bytes) GuardPool(layout, records, heap.guarded);
  bool published = false;
  {
    const SpinLockHolder holder(pool_lock);
    if (PoolOf(heap) == nullptr) {
      // The handlers are added first; they do nothing while there is no pool.
      AddForkHandlers(&kForkHandlers);
      heap.guarded.record_bytes.Add(record_bytes);
      heap.guarded.pool.store(pool, std::memory_order_release);
      heap.guarded.pool_start.store(start, std::memory_order_relaxed);
      heap.guarded.pool_bytes.store(layout.bytes(), std::memory_order_release);
      published = true;
    }
  }
  // Another thread has published its pool first.
  if (!published) static_cast<void>(heap.virtual_memory.Unmap(mapping.start, mapping.bytes));
  return true;
}

void BeginTrace(GuardTrace* trace) {
  trace->when_ms = CoarseMilliseconds();
  trace->thread = ThreadId();
}

TC_FAST_PATH void TraceCaller(GuardTrace* trace) {
  BeginTrace(trace);
  trace->depth = static_cast<uint32_t>(GetCallerStackTrace(
      trace->frames.data(), trace->frames.size(), 0, AllocatorFrames::kLeading, kFreeStaticSkip));
}

[[noreturn]] void Abort(Heap& heap, const GuardError& error) {
  GuardPool& pool = *PoolOf(heap);
  pool.KeepError(error);
  WriteGuardReport(pool, error, heap.virtual_memory);
  char line[kAbortLineBytes];
  TextWriter writer(line, sizeof(line));
  WriteGuardErrorLine(pool, error, &writer);
  AbortAfter(writer.text());
}

// Returns the error of a free of `p`, where no object in use starts.
GuardError ErrorOfInvalid(const GuardPool& pool, const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  GuardError error;
  error.kind = GuardErrorKind::kInvalidFree;
  error.address = address;
  const GuardSlot* const slot = pool.FindSlot(address);
  if (slot == nullptr) return error;
  const GuardState state = slot->state.load(std::memory_order_acquire);
  if (state == GuardState::kUnused || state == GuardState::kPreparing) return error;
  error.slot = static_cast<uint32_t>(pool.IndexOf(slot));
  if (slot->place.object == address) error.kind = GuardErrorKind::kDoubleFree;
  return error;
}

// A sized free may pass any size of the same size class that is not less than the requested size,
// since tcmalloc_get_estimated_allocated_size returns the size of the class to programs.
bool SizeFits(const GuardSlot& slot, const FreeCall& call) {
  if (!call.is_sized) return true;
  if (call.size < slot.requested_bytes && sizes_may_be_smaller.value()) return true;
  return call.size >= slot.requested_bytes &&
         kSizeClasses.ClassOf(call.size, call.alignment) ==
             kSizeClasses.ClassOf(slot.requested_bytes, slot.alignment);
}

// Whether the program wrote nothing beside the object; if it did, fills in `error`.
bool IsSlackWhole(const GuardSlot& slot, GuardError* error) {
  const uintptr_t written = FindWrittenSlack(slot.place, slot.requested_bytes);
  if (written == 0) return true;
  error->address = written;
  error->kind =
      written < slot.place.object ? GuardErrorKind::kWrittenBefore : GuardErrorKind::kWrittenAfter;
  return false;
}

// Whether this call may free the claimed object; if not, fills in `error`.
bool MayFreeSlot(const GuardSlot& slot, const FreeCall& call, GuardError* error) {
  error->address = slot.place.object;
  if (!MayFree(call.kind, slot.kind)) {
    error->kind = GuardErrorKind::kMismatchedFree;
    return false;
  }
  if (!SizeFits(slot, call)) {
    error->kind = GuardErrorKind::kWrongSize;
    error->size = call.size;
    error->alignment = call.alignment;
    return false;
  }
  return IsSlackWhole(slot, error);
}

}  // namespace

void PrepareGuardedSamples(Heap& heap) {
  if (heap.settings.guarded_report && !ReportGuardFaults()) {
    WriteToStderr("tcmalloc: TCMALLOC_GUARDED_REPORT: cannot handle SIGSEGV and SIGBUS\n");
  }
  if (heap.settings.guarded_sample > 0 && !SetGuardedSample(heap, heap.settings.guarded_sample)) {
    WriteToStderr(
        "tcmalloc: TCMALLOC_GUARDED_SAMPLE: no memory for the pool; nothing is guarded\n");
  }
}

bool SetGuardedSample(Heap& heap, size_t n) {
  if (n > 0 && PoolOf(heap) == nullptr && !MakePool(heap)) return false;
  heap.guarded.every.store(n, std::memory_order_relaxed);
  if (n > 0 && heap.sampling.period() == 0) {
    SetSamplePeriod(heap, kDefaultSamplePeriod);
  }
  return true;
}

NewGuarded TakeGuarded(Heap& heap, size_t size, size_t alignment, AllocationKind kind) {
  const size_t every = heap.guarded.every.load(std::memory_order_relaxed);
  if (every == 0) return {};
  GuardPool* const pool = PoolOf(heap);
  if (pool == nullptr || !pool->layout().Fits(size, alignment)) return {};
  if ((candidates.fetch_add(1, std::memory_order_relaxed) + 1) % every != 0) return {};
  GuardSlot* const slot = pool->Take(size, alignment);
  if (slot == nullptr) return {};
  if (!SetAccess(slot->place.first(), slot->place.page_bytes, PageAccess::kReadWrite)) {
    pool->GiveUp(slot);
    return {};
  }
  FillSlack(slot->place, size);
  slot->kind = kind;
  slot->freed.thread = slot->freed.depth = 0;
  slot->span.sample = nullptr;
  return {reinterpret_cast<void*>(slot->place.object), &slot->span.sample, slot};
}

void* PublishGuarded(Heap& heap, const NewGuarded& taken) {
  auto* const slot = static_cast<GuardSlot*>(taken.slot);
  GuardTrace& trace = slot->allocated;
  BeginTrace(&trace);
  slot->span.in_use.handed_out_ms = trace.when_ms;
  trace.depth = 0;
  if (const auto* const sample = static_cast<const Sample*>(*taken.sample)) {
    trace.depth = static_cast<uint32_t>(std::min<size_t>(sample->depth, trace.frames.size()));
    std::copy_n(sample->stack, trace.depth, trace.frames.data());
  }
  PoolOf(heap)->Publish(slot);
  return taken.object;
}

void ForEachGuarded(Heap& heap, void (*f)(void* argument, size_t bytes), void* argument) {
  GuardPool* const pool = PoolOf(heap);
  if (pool == nullptr) return;
  const SpinLockHolder holder(pool->lock());
  pool->ForEachInUse([&](const GuardSlot& slot) { f(argument, slot.object_bytes()); });
}

void FreeGuarded(Heap& heap, void* p, const FreeCall& call) {
  GuardPool& pool = *PoolOf(heap);
  GuardSlot* const slot = pool.Claim(p);
  GuardError error;
  if (slot == nullptr) {
    error = ErrorOfInvalid(pool, p);
  } else if (!MayFreeSlot(*slot, call, &error)) {
    error.slot = static_cast<uint32_t>(pool.IndexOf(slot));
    pool.ReturnClaim(slot);
  }
  if (error.kind != GuardErrorKind::kNone) {
    error.access = GuardAccess::kFree;
    error.freed_as = call.kind;
    TraceCaller(&error.trace);
    Abort(heap, error);
  }
  TraceCaller(&slot->freed);
  void* const sample = slot->span.sample;
  slot->span.sample = nullptr;
  if (sample != nullptr) SampleFreed(sample);
  // If the OS refuses, the object's memory stays accessible in quarantine.
  static_cast<void>(MakeInaccessible(slot->place.first(), slot->place.page_bytes));
  pool.Quarantine(slot);
}

size_t GuardedBytesToReallocate(Heap& heap, void* p) {
  GuardPool& pool = *PoolOf(heap);
  GuardSlot* const slot = pool.FindSlot(reinterpret_cast<uintptr_t>(p));
  GuardError error;
  if (slot == nullptr || slot->state.load(std::memory_order_acquire) != GuardState::kInUse ||
      slot->place.object != reinterpret_cast<uintptr_t>(p)) {
    error = ErrorOfInvalid(pool, p);
    if (error.kind == GuardErrorKind::kDoubleFree) error.kind = GuardErrorKind::kUseAfterFree;
  } else if (!MayFree(AllocationKind::kMalloc, slot->kind)) {
    error.kind = GuardErrorKind::kMismatchedFree;
    error.address = slot->place.object;
    error.slot = static_cast<uint32_t>(pool.IndexOf(slot));
  } else if (!IsSlackWhole(*slot, &error)) {
    error.slot = static_cast<uint32_t>(pool.IndexOf(slot));
  }
  if (error.kind == GuardErrorKind::kNone) return slot->requested_bytes;
  error.access = GuardAccess::kReallocate;
  TraceCaller(&error.trace);
  Abort(heap, error);
}

size_t GuardedUsableBytes(Heap& heap, const void* p) {
  const GuardSlot* const slot = PoolOf(heap)->FindSlot(reinterpret_cast<uintptr_t>(p));
  const bool in_use = slot != nullptr &&
                      slot->state.load(std::memory_order_acquire) == GuardState::kInUse &&
                      slot->place.object == reinterpret_cast<uintptr_t>(p);
  return in_use ? slot->requested_bytes : 0;
}

}  // namespace tcmalloc
