// SPDX-License-Identifier: BSD-3-Clause
#include "malloc/slow_path.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/tuned.h"
#include "instruments/guard/guarded_objects.h"
#include "instruments/profiles/sampler.h"
#include "malloc/fast_path.h"
#include "os/c_library.h"
#include "os/spinlock.h"
#include "process/current_thread.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/hooks.h"
#include "process/large_reports.h"
#include "process/limits.h"
#include "process/release.h"

namespace tcmalloc {
namespace {

// When realloc moves an object of this size or more, the old memory does not enter the thread
// cache. A limit of 4 KiB saves no more memory (decision 0009).
constexpr size_t kUncachedBytes = Tuned(16_KiB, 1_KiB, kMaxSmallSize);

// Calls the program's new hooks, if there are any. Returns the object.
void* NotifyNewHooks(void* object, size_t size) {
  if (HooksInstalled() && object != nullptr) CallNewHooks(object, size);
  return object;
}

// Calls the program's delete hooks, if there are any.
void NotifyDeleteHooks(const void* p) {
  if (HooksInstalled()) CallDeleteHooks(p);
}

// Hooks see a resize in place as a free and an allocation.
void* Resized(void* p, size_t size) {
  NotifyDeleteHooks(p);
  return NotifyNewHooks(p, size);
}

// Flushes the caches when memory is out, so that spans become empty. True if this moved any
// objects, so that another try may succeed.
TC_SLOW_PATH bool FlushedForAnotherTry(Heap& heap) { return FlushCaches(heap) > 0; }

void* AllocateFromTiers(Heap& heap, ThreadCache* cache, SizeClass c) {
  if (cache != nullptr) return cache->Allocate(c);
  void* object = nullptr;
  heap.central.Remove(c, &object, 1);
  return object;
}

// Returns the home that keeps spans for the large objects of this thread.
SpanHome& KeeperOf(Heap& heap) { return heap.central.shards().Current().home(); }

// Returns the pages of a large object of `size` bytes.
Length PagesFor(size_t size) {
  return std::max(Length(1), Length::ForBytes(std::min(size, kMaxRequest)));
}

// Allocates the span of an object of `size` bytes that has its own pages; null without memory.
Span* NewSpan(Heap& heap, size_t size, size_t alignment) {
  const Length n = PagesFor(size);
  const Length alignment_pages = std::max(Length(1), Length(alignment >> kPageShift));
  LimitedAllocation limited(heap);
  SpanHome* const keeper = alignment_pages == Length(1) ? &KeeperOf(heap) : nullptr;
  Span* span = heap.page_heap.New(n, SpanState::kLarge, alignment_pages, keeper);
  if (span == nullptr && MayFitAfterFlush(heap.page_heap, n) && FlushedForAnotherTry(heap)) {
    span = heap.page_heap.New(n, SpanState::kLarge, alignment_pages);
  }
  limited.Ended(span == nullptr, size);
  return span;
}

// The program's request.
struct Request {
  size_t size;
  size_t alignment = 1;
  AllocationKind kind = AllocationKind::kMalloc;
};

void Sampled(Heap& heap, Span* span, size_t requested, size_t allocated) {
  SampleAllocated(heap, span->start_address(), requested, allocated, &span->sample);
}

// Allocates a sampled object of class `c`, guarded or on pages of its own; null if the page heap
// has no span without a flush. Then the allocation is not sampled, since a sample does not justify
// a flush.
TC_SLOW_PATH void* AllocateSampled(Heap& heap, SizeClass c, const Request& request) {
  const size_t size = request.size;
  if (const NewGuarded guarded = TakeGuarded(heap, size, request.alignment, request.kind);
      guarded.object != nullptr) {
    SampleAllocated(heap, guarded.object, size, size, guarded.sample);
    return PublishGuarded(heap, guarded);
  }
  Span* const span = heap.page_heap.NewSampled(c);
  if (span == nullptr) return nullptr;
  Sampled(heap, span, size, kSizeClasses.size(c));
  return span->start_address();
}

void* AllocateSmallSlow(SizeClass c, const Request& request) {
  const size_t size = request.size;
  if (InStrayChild()) return CLibraryMalloc::Allocate(kSizeClasses.size(c), request.alignment);
  ThreadCache* const cache = CurrentCache();
  Heap& heap = GlobalHeap();
  heap.registry.AdoptOrphanIfAny();
  // This precedes sampling: requests from outside must not wait if every object is sampled.
  LimitedAllocation limited(heap);
  if (__builtin_expect(heap.sampling.Count(cache, size), false)) {
    if (void* const object = AllocateSampled(heap, c, request)) return object;
  }
  void* object = AllocateFromTiers(heap, cache, c);
  if (object == nullptr && FlushedForAnotherTry(heap)) object = AllocateFromTiers(heap, cache, c);
  limited.Ended(object == nullptr, size);
  return object;
}

// Allocates the span of a large object; null without memory.
Span* NewLargeSpan(size_t size, size_t alignment) {
  if (size > kMaxRequest || alignment > kMaxRequest) return nullptr;
  EnsureHeap();
  Heap& heap = GlobalHeap();
  // A thread that allocates only large objects gets a cache, too, so that its end is noticed.
  const bool sample = heap.sampling.Count(CurrentCache(), size);
  Span* const span = NewSpan(heap, size, alignment);
  if (__builtin_expect(sample, false) && span != nullptr) {
    Sampled(heap, span, size, span->bytes());
  }
  return span;
}

void* AllocateLarge(size_t size, size_t alignment) {
  if (InStrayChild()) {
    return CLibraryMalloc::Allocate(std::max(size, AllocationSize(size, alignment)), alignment);
  }
  Span* const span = NewLargeSpan(size, alignment);
  if (span == nullptr) return nullptr;
  void* const object = span->start_address();
  GlobalHeap().large_reports.Allocated(object, size);
  return object;
}

void FreeSmallSlow(SizeClass c, void* p) {
  if (InStrayChild()) return;
  // An object of class `c` is in use, so the heap exists.
  ThreadCache* const cache = CacheForFree();
  Heap& heap = GlobalHeap();
  heap.registry.AdoptOrphanIfAny();
  if (cache != nullptr) {
    cache->Free(c, p);
  } else {
    heap.central.Insert(c, &p, 1);
  }
}

// Returns the span of the large object that starts at `p`; null if no large object starts there.
Span* LargeSpanAt(const void* p) {
  if (!PageMap::InRange(p)) return nullptr;
  Span* const span = global_page_map.SpanOf(PageId::Containing(p));
  if (span == nullptr || span->state.load(std::memory_order_relaxed) != SpanState::kLarge ||
      span->start_address() != p) {
    return nullptr;
  }
  return span;
}

void Forget(void* sample) {
  if (__builtin_expect(sample != nullptr, false)) SampleFreed(sample);
}

// Sampling, too, treats a resize or a move as a free and an allocation.
void SampleResized(Heap& heap, void* former, Span* span, size_t size) {
  Forget(former);
  if (heap.sampling.Count(current_slot.cache, size)) {
    Sampled(heap, span, size, span->bytes());
  }
}

// Resizes the large object at `p` in place to `size` bytes; false if it cannot.
bool ResizeLarge(Span* span, void* p, size_t old_size, size_t size) {
  Heap& heap = GlobalHeap();
  void* former;
  if (!heap.page_heap.ResizeLargeAt(span, p, Length::ForBytes(size), &former)) return false;
  SampleResized(heap, former, span, size);
  if (size > old_size) heap.large_reports.Allocated(p, size);
  return true;
}

// Moves the pages of the object to an address with room for `size` bytes; null if the caller should
// copy.
void* MoveLarge(Span* span, void* p, size_t size) {
  Heap& heap = GlobalHeap();
  void* former;
  Span* const moved = heap.page_heap.MoveLargeAt(span, p, Length::ForBytes(size), &former);
  if (moved == nullptr) return nullptr;
  SampleResized(heap, former, moved, size);
  heap.large_reports.Allocated(moved->start_address(), size);
  return moved->start_address();
}

// Requires: `p` is not null and not on a page of small objects.
void FreeNotSmall(void* p, const FreeCall& call) {
  EnsureHeap();
  Heap& heap = GlobalHeap();
  if (InStrayChild()) {
    // Leaves a guarded sample as it is, and does not report a mistake of the program.
    if (LargeSpanAt(p) == nullptr && !heap.guarded.Contains(p)) CLibraryMalloc::Free(p);
    return;
  }
  if (Span* const span = LargeSpanAt(p)) {
    void* sample;
    if (heap.page_heap.DeleteLargeAt(span, p, &sample, &KeeperOf(heap))) {
      return Forget(sample);
    }
  }
  if (heap.guarded.Contains(p)) return FreeGuarded(heap, p, call);
  FreeForeign(heap, p);
}

// Whether an allocation of `size` bytes with an alignment that `p` has would have had class `c`,
// and without a class the pages of `span`.
bool FitsWithAlignment(const void* p, size_t size, SizeClass c, const Span* span) {
  if (c == SizeClass::kNone && GlobalHeap().page_heap.RoundUp(PagesFor(size)) != span->num_pages) {
    return false;
  }
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  for (size_t a = 1; a != 0 && address % a == 0; a *= 2) {
    if (kSizeClasses.ClassOf(size, a) == c) return true;
  }
  return false;
}

// Called when the program frees the object at `p` with a size and alignment of another class. The
// object has class `c`, or is a large one with the span `span`. Returns if the size is right for a
// large object that was aligned to more than a page, and the free passes no alignment: gperftools
// accepts that, and it hides no wrong size, since only such an object is large and has so few
// pages.
void ReportUnlessLargeAligned(const void* p, const FreeCall& call, SizeClass c, const Span* span) {
  Misuse misuse = Misuse::kWrongSize;
  if (call.alignment == 1 && FitsWithAlignment(p, call.size, c, span)) {
    if (c == SizeClass::kNone) return;
    misuse = Misuse::kMissingAlignment;
  }
  const size_t bytes = span == nullptr ? kSizeClasses.size(c) : span->object_bytes();
  if (call.size < bytes && sizes_may_be_smaller.value()) return;
  ReportMisuse(misuse, p, bytes, call.size, call.alignment);
}

// Frees `p`, which is not null, with the size and alignment that the program passed; `expected` is
// their class.
void FreeExpecting(void* p, const FreeCall& call, SizeClass expected) {
  NotifyDeleteHooks(p);
  const SizeClass c = global_page_map.ClassOf(p);
  if (c != SizeClass::kNone) {
    if (c != expected) ReportUnlessLargeAligned(p, call, c, nullptr);
    if (!FreeFast(Scaled(c), p)) {
      LeaveFastPath();
      FreeSmallSlow(c, p);
    }
    return;
  }
  if (const Span* const span = LargeSpanAt(p)) {
    if (expected != span->small_class() ||
        (expected == SizeClass::kNone &&
         GlobalHeap().page_heap.RoundUp(PagesFor(call.size)) != span->num_pages)) {
      ReportUnlessLargeAligned(p, call, span->small_class(), span);
    }
  }
  FreeNotSmall(p, call);
}

// Frees `p`, an object of class `c` that realloc moved to a larger one. The thread cache does not
// keep `p` if it is large: a growing object seldom shrinks again, and the memory can serve other
// requests.
void FreeOutgrown(SizeClass c, void* p) {
  if (kSizeClasses.size(c) < kUncachedBytes) {
    return Deallocate<&FreeSlow<AllocationKind::kMalloc>>(p);
  }
  NotifyDeleteHooks(p);
  if (InStrayChild()) return;
  ThreadCache* const cache = CacheForFree();
  Heap& heap = GlobalHeap();
  if (cache != nullptr) {
    cache->FreePast(c, p);
  } else {
    heap.central.Insert(c, &p, 1);
  }
}

// AllocateSlow without the hooks: the caller calls them later.
void* AllocateWithoutHooksAs(AllocationKind kind, size_t size) {
  LeaveFastPath();
  TC_ASSERT(SpinLock::NoneHeldByThisThread());
  const SizeClass c = kSizeClasses.ClassOf(size);
  if (c == SizeClass::kNone) return AllocateLarge(size, 1);
  return AllocateSmallSlow(c, {.size = size, .kind = kind});
}

void* AllocateWithoutHooks(size_t size) {
  return AllocateWithoutHooksAs(AllocationKind::kMalloc, size);
}

}  // namespace

void* AllocateSlow(size_t size) { return AllocateSlowAs(AllocationKind::kMalloc, size); }

void* AllocateSlowAs(AllocationKind kind, size_t size) {
  return NotifyNewHooks(AllocateWithoutHooksAs(kind, size), size);
}

void* AllocateAligned(size_t size, size_t alignment, AllocationKind kind) {
  const SizeClass c = kSizeClasses.ClassOf(size, alignment);
  if (c == SizeClass::kNone) return NotifyNewHooks(AllocateLarge(size, alignment), size);
  if (void* const object = AllocateFast(Scaled(c), size)) return object;
  LeaveFastPath();
  return NotifyNewHooks(AllocateSmallSlow(c, {.size = size, .alignment = alignment, .kind = kind}),
                        size);
}

size_t AllocationSize(size_t size, size_t alignment) {
  const SizeClass c = kSizeClasses.ClassOf(size, alignment);
  if (c != SizeClass::kNone) return kSizeClasses.size(c);
  constexpr size_t kMostBytes = SIZE_MAX >> (kAddressBits == 48 ? 16 : 1);
  if (size > kMostBytes || alignment > kMostBytes) return 0;
  const Length n = ExistingHeap().page_heap.RoundUp(PagesFor(size));
  return n.bytes() > kMostBytes ? 0 : n.bytes();
}

void* AllocateZeroed(size_t size) {
  if (size <= kMaxSmallSize || InStrayChild()) {
    void* const object = Allocate<&AllocateWithoutHooks>(size);
    if (object != nullptr) memset(object, 0, size);
    return NotifyNewHooks(object, size);
  }
  Span* const span = NewLargeSpan(size, 1);
  if (span == nullptr) return nullptr;
  void* const object = span->start_address();
  GlobalHeap().page_heap.address_space().Clear(*span, size);
  GlobalHeap().large_reports.Allocated(object, size);
  return NotifyNewHooks(object, size);
}

template <AllocationKind kKind>
void FreeSlow(void* p) {
  LeaveFastPath();
  if (p == nullptr) return;
  NotifyDeleteHooks(p);
  const SizeClass c = global_page_map.ClassOf(p);
  if (c != SizeClass::kNone) {
    FreeSmallSlow(c, p);
  } else {
    FreeNotSmall(p, {.kind = kKind});
  }
}
template void FreeSlow<AllocationKind::kMalloc>(void*);
template void FreeSlow<AllocationKind::kNew>(void*);
template void FreeSlow<AllocationKind::kNewArray>(void*);

template <AllocationKind kKind>
void FreeSizedSlow(void* p, size_t size) {
  LeaveFastPath();
  if (p == nullptr) return;
  FreeExpecting(p, {.kind = kKind, .is_sized = true, .size = size}, kSizeClasses.ClassOf(size));
}
template void FreeSizedSlow<AllocationKind::kMalloc>(void*, size_t);
template void FreeSizedSlow<AllocationKind::kNew>(void*, size_t);
template void FreeSizedSlow<AllocationKind::kNewArray>(void*, size_t);

void FreeSizedAligned(void* p, size_t size, size_t alignment, AllocationKind kind) {
  if (p == nullptr) return;
  // ClassOf requires the first condition. The second cannot find every wrong alignment, since an
  // address may be aligned more than was requested. Then the size class reveals the mistake; for a
  // large object nothing does.
  if (!std::has_single_bit(alignment) || reinterpret_cast<uintptr_t>(p) % alignment != 0) {
    ReportMisuse(Misuse::kWrongAlignment, p, 0, 0, alignment);
  }
  FreeExpecting(p, {.kind = kind, .is_sized = true, .size = size, .alignment = alignment},
                kSizeClasses.ClassOf(size, alignment));
}

void* Reallocate(void* p, size_t size) {
  const SizeClass c = global_page_map.ClassOf(p);
  size_t old_size;
  bool in_place_later = false;
  if (c != SizeClass::kNone) {
    // A resize in place must stay within the class, since a sized free may pass the new size.
    if (kSizeClasses.ClassOf(size) == c) return Resized(p, size);
    old_size = kSizeClasses.size(c);
  } else if (Span* const span = LargeSpanAt(p)) {
    if (size > kMaxRequest) return nullptr;
    old_size = span->object_bytes();
    const bool sampled_small = span->has_small_object();
    // The object stays in place if an object that is not sampled would.
    if (sampled_small && kSizeClasses.ClassOf(size) == span->small_class()) return Resized(p, size);
    const bool may_change = !sampled_small && !InStrayChild();
    // Hooks must see the end of the old object before another thread can get its memory.
    if (size > kMaxSmallSize && may_change && (size >= old_size || !HooksInstalled()) &&
        ResizeLarge(span, p, old_size, size)) {
      return Resized(p, size);
    }
    if (size > old_size && may_change && !HooksInstalled()) {
      if (void* const moved = MoveLarge(span, p, size)) return moved;
    }
    in_place_later = size > kMaxSmallSize && may_change;
  } else {
    Heap& heap = ExistingHeap();
    if (!heap.guarded.Contains(p)) return ReallocateForeign(heap, p, size);
    old_size = GuardedBytesToReallocate(heap, p);
    if (size > kMaxRequest) return nullptr;
  }
  void* const fresh = Allocate<&AllocateSlow>(size);
  if (fresh == nullptr) {
    // After the flush, a memory limit may have room for the new size in place, not for both.
    if (in_place_later && ResizeLarge(LargeSpanAt(p), p, old_size, size)) return Resized(p, size);
    if (size > old_size) return nullptr;
    // A shrink does not fail: the object stays as it is.
    sizes_may_be_smaller.Set(true);
    return Resized(p, size);
  }
  memcpy(fresh, p, std::min(old_size, size));
  if (c != SizeClass::kNone && size > old_size) {
    FreeOutgrown(c, p);
  } else {
    Deallocate<&FreeSlow<AllocationKind::kMalloc>>(p);
  }
  return fresh;
}

size_t UsableSize(void* p) {
  if (p == nullptr) return 0;
  const SizeClass c = global_page_map.ClassOf(p);
  if (c != SizeClass::kNone) return kSizeClasses.size(c);
  if (const Span* const span = LargeSpanAt(p)) return span->object_bytes();
  Heap& heap = ExistingHeap();
  if (heap.guarded.Contains(p)) return GuardedUsableBytes(heap, p);
  return ForeignUsableSize(heap, p);
}

}  // namespace tcmalloc
