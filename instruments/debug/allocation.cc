// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/allocation.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/units.h"
#include "instruments/debug/checks.h"
#include "instruments/unwind/mapped_libraries.h"
#include "malloc/fast_path.h"
#include "malloc/slow_path.h"
#include "os/log.h"
#include "os/memory/virtual_memory.h"
#include "os/stack_trace.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/hooks.h"
#include "process/instrument_records.h"

namespace tcmalloc {
namespace {

size_t HardwarePage() { return GlobalHeap().virtual_memory.hardware_page_size(); }

PageAccess FencedAccess() {
  return GlobalHeap().settings.page_fence_readable ? PageAccess::kRead : PageAccess::kNone;
}

// Set by the first thread that cannot raise a fence. Relaxed, since no other data depends on it.
constinit std::atomic<bool> refused{false};

void WarnOnce() {
  if (refused.exchange(true, std::memory_order_relaxed)) return;
  WriteToStderr(
      "tcmalloc: TCMALLOC_PAGE_FENCE: the OS refuses to protect further pages; later objects have "
      "no fence (vm.max_map_count limits the number of mappings)\n");
}

}  // namespace

FencePlan PlanFence(size_t size, size_t alignment) {
  const size_t page = HardwarePage();
  const size_t whole = std::max(page, alignment);
  if (size > kMaxRequest - page || whole > kMaxRequest) return {0, SIZE_MAX, alignment};
  const uint8_t shift =
      alignment == 0 ? uint8_t{0} : static_cast<uint8_t>(std::countr_zero(alignment));
  const size_t with_rest = size + DebugObject::AfterBytes(size, true, shift);
  const size_t usable = (sizeof(DebugObject) + with_rest + whole - 1) & ~(whole - 1);
  return {usable - with_rest, usable + page, whole};
}

bool RaiseFence(char* end) {
  const size_t page = HardwarePage();
  if (SetAccess(end - page, page, FencedAccess())) return true;
  WarnOnce();
  return false;
}

void CloseFence(DebugObject* object) {
  if (!SetAccess(object->raw(), object->RawBytes(), FencedAccess())) WarnOnce();
}

void OpenFence(char* raw, size_t bytes) {
  if (SetAccess(raw, bytes + HardwarePage(), PageAccess::kReadWrite)) return;
  AbortWith(
      "tcmalloc: TCMALLOC_PAGE_FENCE: the OS refuses to make freed memory accessible again\n");
}

bool CopyFencedHeader(const char* raw, DebugObject* copy, const char** start) {
  OffsetRecord record;
  if (!CopyProtected(&record, raw, sizeof(record))) return false;
  const size_t room = record.mark == OffsetRecord::MarkAt(raw) ? record.room : sizeof(DebugObject);
  *start = raw + room;
  return CopyProtected(static_cast<void*>(copy), DebugObject::Of(*start), sizeof(DebugObject));
}

namespace {

constexpr size_t kBuckets = size_t{1} << 14;

// A thread writes a bucket by a compare-and-swap with release order, after the record is complete;
// all threads read it with acquire order.
constinit std::atomic<CallStack*> buckets[kBuckets] = {};

// The most return addresses that are kept for each call that allocates or frees.
constexpr size_t kDepth = 24;
static_assert(kDepth <= kMaxStackDepth);
// In a statically linked program these frames are left out: RecordCaller, the function that calls
// it, and the entry point.
constexpr size_t kStaticSkip = 3;

}  // namespace

const CallStack* RecordStack(const uintptr_t* frames, size_t depth) {
  const auto hash = static_cast<uint32_t>(HashOfStack(frames, depth));
  std::atomic<CallStack*>& bucket = buckets[hash % kBuckets];
  CallStack* const first = bucket.load(std::memory_order_acquire);
  for (const CallStack* s = first; s != nullptr; s = s->next) {
    if (s->hash == hash && s->depth == depth && std::equal(frames, frames + depth, s->frames)) {
      return s;
    }
  }
  if (InStrayChild()) return nullptr;
  const size_t bytes = sizeof(CallStack) + (depth == 0 ? 0 : depth - 1) * sizeof(uintptr_t);
  auto* const added = static_cast<CallStack*>(ExistingHeap().arena.Allocate(bytes));
  if (added == nullptr) return nullptr;
  added->hash = hash;
  added->depth = static_cast<uint32_t>(depth);
  std::copy_n(frames, depth, added->frames);
  added->next = first;
  while (!bucket.compare_exchange_weak(added->next, added, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  return added;
}

const CallStack* RecordCaller(uintptr_t caller) {
  uintptr_t frames[kDepth];
  const size_t depth =
      GetCallerStackTrace(frames, kDepth, 0, AllocatorFrames::kLeading, kStaticSkip);
  return depth == 0 ? RecordStack(&caller, 1) : RecordStack(frames, depth);
}

void WriteCurrentStack(const char* heading, bool names) {
  uintptr_t frames[kDepth];
  const size_t depth =
      GetCallerStackTrace(frames, kDepth, 0, AllocatorFrames::kLeading, kStaticSkip);
  if (depth == 0) return;
  WriteToStderr(heading);
  WriteStackToStderr(frames, depth, names, GlobalHeap().virtual_memory);
}

bool IsRecorded(const CallStack* stack) {
  for (const std::atomic<CallStack*>& bucket : buckets) {
    for (const CallStack* s = bucket.load(std::memory_order_acquire); s != nullptr; s = s->next) {
      if (s == stack) return true;
    }
  }
  return false;
}

namespace {

constexpr ForkHandlers kForkHandlers = {
    [] { free_queue.lock().HoldForFork(); },
    [] { free_queue.lock().ReleaseAfterForkInParent(); },
    [] { free_queue.lock().ResetAfterForkInChild(); },
};

}  // namespace

constinit FreeQueue free_queue;

FreeQueue::Entry* FreeQueue::Push(Entry* entry, size_t limit) {
  entry->next = nullptr;
  const SpinLockHolder holder(lock_);
  DebugObject* const added = entry->object;
  if (!entry->fenced) {
    added->state.store(added->Mark(DebugObject::kFreed), std::memory_order_release);
  }
  (newest_ == nullptr ? oldest_ : newest_->next) = entry;
  newest_ = entry;
  size_t bytes = bytes_.load(std::memory_order_relaxed) + entry->bytes;
  Entry* const first = oldest_;
  Entry* last = nullptr;
  while (bytes > limit && oldest_ != nullptr) {
    last = oldest_;
    if (!last->fenced) {
      DebugObject* const leaves = last->object;
      leaves->state.store(leaves->Mark(DebugObject::kFreeing), std::memory_order_release);
    }
    bytes -= last->bytes;
    oldest_ = last->next;
  }
  if (oldest_ == nullptr) newest_ = nullptr;
  bytes_.store(bytes, std::memory_order_relaxed);
  if (last == nullptr) return nullptr;
  last->next = nullptr;
  return first;
}

void PrepareFreeQueue() { AddForkHandlers(&kForkHandlers); }

namespace {

// New memory is filled with the pattern up to this offset. Filling all of a large object would back
// pages that the program never touches.
constexpr size_t kMaxFilledBytes = 64_MiB;

// Counts allocations; each header has its number for a reader. Any thread adds. Relaxed, since no
// other data depends on it.
constinit std::atomic<uint64_t> allocations{0};

// Where the header, the object and its red zone lie in raw memory.
struct Shape {
  size_t room;
  size_t bytes;      // of raw memory; SIZE_MAX if they overflow
  size_t alignment;  // of raw memory; 0: as malloc
};

constexpr uint8_t ShiftOf(size_t alignment) {
  return alignment == 0 ? 0 : static_cast<uint8_t>(std::countr_zero(alignment));
}

Shape ShapeOf(size_t size, size_t alignment) {
  // The address after the header is also a multiple of kMinAlignment, and a larger alignment is a
  // power of two.
  const size_t room = alignment > kMinAlignment
                          ? (sizeof(DebugObject) + alignment - 1) & ~(alignment - 1)
                          : sizeof(DebugObject);
  if (size > kMaxRequest || room == 0 || room > kMaxRequest) return {0, SIZE_MAX, alignment};
  return {room, room + size + DebugObject::AfterBytes(size, false, 0), alignment};
}

TC_FAST_PATH void NotifyNewHooks(const void* object, size_t size) {
  if (HooksInstalled()) RunNewHooks(object, size);
}
TC_FAST_PATH void NotifyDeleteHooks(const void* object) {
  if (HooksInstalled()) RunDeleteHooks(object);
}

// Writes the header and the red zones around the object.
void Dress(DebugObject* object, const NewObject& request, size_t room, bool fenced) {
  object->number = allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  object->size = request.size;
  object->room = room;
  object->allocated_at = RecordCaller(request.caller);
  object->freed_at = nullptr;
  object->allocated_by = request.by;
  object->freed_by = request.by;
  object->alignment_shift = ShiftOf(request.alignment);
  object->fenced = fenced;
  object->filled = false;
  object->check = object->Checksum();
  memset(object->before, kRedZoneByte, sizeof(object->before));
  memset(object->object() + request.size, kRedZoneByte, object->bytes_after());
  if (room != sizeof(DebugObject)) {
    auto* const record = reinterpret_cast<OffsetRecord*>(object->raw());
    record->mark = OffsetRecord::MarkAt(object->raw());
    record->room = room;
  }
  object->state.store(object->Mark(DebugObject::kLive), std::memory_order_release);
}

// Returns the memory of a freed object to the heap.
void Recycle(DebugObject* object, char* raw, size_t bytes, bool fenced) {
  if (fenced) OpenFence(raw, bytes);
  CheckFreed(*object);
  object->state.store(object->Mark(DebugObject::kRecycled), std::memory_order_release);
  Deallocate<&FreeSlow<AllocationKind::kMalloc>>(raw);
}

void RecycleAll(FreeQueue::Entry* entry) {
  while (entry != nullptr) {
    FreeQueue::Entry* const next = entry->next;
    Recycle(entry->object, entry->raw, entry->bytes, entry->fenced);
    GlobalHeap().arena.Free(entry, sizeof(*entry));
    entry = next;
  }
}

// Puts an object that is kFreeing into the queue of freed objects. An object that does not fit into
// the queue, or for which there is no entry, returns to the heap at once; in a stray child, each.
void Retire(DebugObject* object) {
  Heap& heap = GlobalHeap();
  const bool fenced = object->fenced;
  const bool reclaim = heap.settings.reclaim_memory;
  const size_t limit = reclaim ? heap.settings.free_queue_bytes : SIZE_MAX;
  const size_t bytes = object->RawBytes();
  char* const raw = object->raw();
  if (fenced && heap.settings.page_fence_never_reclaim) {
    object->state.store(object->Mark(DebugObject::kFreed), std::memory_order_release);
    return CloseFence(object);
  }
  auto* const entry =
      bytes > limit || InStrayChild()
          ? nullptr
          : static_cast<FreeQueue::Entry*>(heap.arena.Allocate(sizeof(FreeQueue::Entry)));
  if (entry == nullptr) return Recycle(object, raw, bytes, fenced);
  if (fenced) {
    object->state.store(object->Mark(DebugObject::kFreed), std::memory_order_release);
    CloseFence(object);
  } else {
    memset(object->object(), kFreedByte, object->size);
    object->filled = true;
  }
  *entry = {.object = object, .raw = raw, .bytes = bytes, .fenced = fenced, .next = nullptr};
  RecycleAll(free_queue.Push(entry, limit));
}

void CheckRequest(const DebugObject& object, const FreedObject& freed) {
  if (object.allocated_by != freed.by) ReportMismatch(object, freed.call);
  if (freed.has_size && freed.size != object.size &&
      !(freed.size < object.size && sizes_may_be_smaller.value())) {
    ReportWrongSize(object, freed.call, freed.size);
  }
  if (freed.has_alignment && (!std::has_single_bit(freed.alignment) ||
                              ShiftOf(freed.alignment) != object.alignment_shift)) {
    ReportWrongAlignment(object, freed.call, &freed.alignment);
  }
  // Forms of operator delete must match those of operator new, while free serves both memalign and
  // malloc.
  if (!freed.has_alignment && object.alignment_shift != 0 && freed.by != AllocatedBy::kMalloc) {
    ReportWrongAlignment(object, freed.call, nullptr);
  }
}

}  // namespace

void* AllocateObject(const NewObject& request, RawAllocation raw) {
  EnsureHeap();
  Shape shape = ShapeOf(request.size, request.alignment);
  const bool fence = GlobalHeap().settings.page_fence && shape.bytes != SIZE_MAX;
  if (fence) {
    const FencePlan plan = PlanFence(request.size, request.alignment);
    shape = {plan.room, plan.bytes, plan.alignment};
  }
  auto* const memory = static_cast<char*>(raw(shape.bytes, shape.alignment));
  if (memory == nullptr) return nullptr;
  char* const p = memory + shape.room;
  // Memory that was allocated zeroed must stay zero.
  if (!request.zeroed) {
    memset(p, kNewByte, std::min(request.size, kMaxFilledBytes));
  } else if (shape.alignment != 0) {
    memset(p, 0, request.size);
  }
  const bool fenced = fence && RaiseFence(memory + shape.bytes);
  Dress(DebugObject::Of(p), request, shape.room, fenced);
  NotifyNewHooks(p, request.size);
  return p;
}

void FreeObject(void* p, const FreedObject& freed) {
  if (p == nullptr) return;
  NotifyDeleteHooks(p);
  DebugObject* const object = FindObject(p, freed.call);
  if (object == nullptr) return FreeSlow<AllocationKind::kMalloc>(p);
  CheckRequest(*object, freed);
  CheckRedZones(*object, freed.call);
  uint32_t live = object->Mark(DebugObject::kLive);
  if (!object->state.compare_exchange_strong(live, object->Mark(DebugObject::kFreeing),
                                             std::memory_order_acq_rel,
                                             std::memory_order_relaxed)) {
    ReportSecondFree(*object, freed.call);
  }
  object->freed_by = freed.by;
  object->freed_at = RecordCaller(freed.caller);
  Retire(object);
}

void* ReallocateObject(void* p, size_t size, uintptr_t caller, RawAllocation raw) {
  const DebugObject* const object = FindObject(p, "realloc");
  if (object == nullptr) return Reallocate(p, size);
  if (object->allocated_by != AllocatedBy::kMalloc) ReportMismatch(*object, "realloc");
  void* const moved = AllocateObject({.size = size, .caller = caller}, raw);
  if (moved == nullptr) {
    if (size > object->size) return nullptr;
    // A shrink does not fail: the object stays as it is.
    sizes_may_be_smaller.Set(true);
    return p;
  }
  memcpy(moved, p, std::min(size, object->size));
  FreeObject(p, {.call = "realloc", .by = AllocatedBy::kMalloc, .caller = caller});
  return moved;
}

size_t SizeOfObject(const void* p) {
  if (p == nullptr) return 0;
  if (const DebugObject* const object = FindObject(p, nullptr)) return object->size;
  // Returns 0 for an address inside an object.
  return RawMemoryAt(p).start != nullptr ? 0 : UsableSize(const_cast<void*>(p));
}

const bool kHasRedZones = true;

// The program's hooks see its objects, not those below them.
void CallNewHooks(const void*, size_t) {}
void CallDeleteHooks(const void*) {}

size_t RawBytes(size_t size, size_t alignment) { return ShapeOf(size, alignment).bytes; }

}  // namespace tcmalloc
