// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/checks.h"

#include <cstring>

#include "base/address_range.h"
#include "central/shard.h"
#include "instruments/debug/allocation.h"
#include "os/stack_trace.h"
#include "process/fork.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// The name of the call in messages if the caller only asks for a size.
constexpr const char* kSizeQuery = "malloc_usable_size";

// True if the header of an object at `p` would lie in `raw`.
bool HasRoomForHeader(const RawMemory& raw, const char* p) {
  return reinterpret_cast<uintptr_t>(p) % kMinAlignment == 0 &&
         p - raw.start >= static_cast<ptrdiff_t>(sizeof(DebugObject));
}

// For an address without a span in the page map: true if its page belongs to the heap. The page map
// has only the first and the last page of a large object.
bool IsInsideOfHeap(const char* p) {
  return PageMap::InRange(p) && ExistingHeap().page_heap.store()->Owns(PageId::Containing(p));
}

// Returns the live object that begins at `p`, inside a large span because its alignment is large;
// null if there is none.
DebugObject* AlignedObjectAt(const char* p) {
  DebugObject* const object = DebugObject::Of(p);
  if (reinterpret_cast<uintptr_t>(p) % kMinAlignment != 0 ||
      !IsInsideOfHeap(reinterpret_cast<const char*>(object)) ||
      !IsReadable(reinterpret_cast<uintptr_t>(object)) || !object->Is(DebugObject::kLive) ||
      !object->ChecksumFits() || object->room <= sizeof(DebugObject) ||
      RawMemoryAt(object->raw()).start != object->raw()) {
    return nullptr;
  }
  return object;
}

// Returns the memory of the large object that `p` points into. Cost: holds the heap.
RawMemory LargeMemoryAround(const char* p) {
  Heap& heap = ExistingHeap();
  const PageId page = PageId::Containing(p);
  SpanView view;
  // Shards change their kept spans without the page heap's lock.
  HoldHeap();
  const size_t found = heap.page_heap.store()->ListSpans(page, &view, 1);
  ReleaseHeap();
  if (found == 0 || page < view.first_page || view.state != SpanState::kLarge) return {};
  return {static_cast<char*>(view.first_page.start_address()), view.object_bytes};
}

// As FindObject, without a lock of the heap, and without reports. In a stray child the object may
// be in memory of the C library. Cost: a system call.
DebugObject* FindInStrayChild(const char* p) {
  DebugObject* const object = DebugObject::Of(p);
  return reinterpret_cast<uintptr_t>(p) % kMinAlignment == 0 &&
                 IsReadable(reinterpret_cast<uintptr_t>(object)) &&
                 object->Is(DebugObject::kLive) && object->ChecksumFits()
             ? object
             : nullptr;
}

// Reports what is at `p`, which lies in `raw` and where no object begins.
[[noreturn]] void ReportNoObject(const RawMemory& raw, const char* p, const char* call) {
  if (HasRoomForHeader(raw, p) && DebugObject::Of(p)->ChecksumFits()) {
    ReportDamagedHeader(*DebugObject::Of(p), call);
  }
  if (const DebugObject* const around = HeaderIn(raw.start, raw.bytes)) {
    ReportInterior(*around, p, call);
  }
  ReportNothingThere(p, call);
}

Damage DamageOf(const DebugObject& object, const char* start, size_t bytes,
                unsigned char expected) {
  if (IsFilled(start, bytes, expected)) return {};
  const auto at = [start](size_t i) { return static_cast<unsigned char>(start[i]); };
  size_t first = 0;
  while (at(first) == expected) ++first;
  size_t last = bytes - 1;
  while (at(last) == expected) --last;
  return {.found = true,
          .offset = start + first - object.object(),
          .bytes = last - first + 1,
          .actual = at(first),
          .expected = expected};
}

constexpr size_t kSpansAtOnce = 32;
constexpr const char* kCall = "check";

// With page fences, the memory of freed objects cannot be read.
bool MayRead(const Heap& heap, const char* raw) {
  return !heap.settings.page_fence || IsReadable(reinterpret_cast<uintptr_t>(raw));
}

// Calls f(header) for each place of the span with a recognisable header, in any state.
template <typename F>
void ForEachHeaderIn(const Heap& heap, const SpanView& view, F f) {
  const Span& span = *view.span;
  auto* const start = static_cast<char*>(span.start_address());
  size_t bytes = span.bytes();
  size_t count = 1;
  if (view.state == SpanState::kSmall) {
    if (view.size_class == SizeClass::kNone) return;  // a kept span
    bytes = kSizeClasses.size(view.size_class);
    count = span.num_objects;
  } else if (view.state != SpanState::kLarge) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    char* const raw = start + i * bytes;
    if (!MayRead(heap, raw)) continue;
    if (DebugObject* const object = HeaderIn(raw, bytes)) f(object);
  }
}

// Calls f(header) as above for all spans, until it returns false.
template <typename F>
void ForEachHeader(Heap& heap, F f) {
  SpanView views[kSpansAtOnce];
  PageId from;
  for (;;) {
    HoldHeap();
    const size_t n = heap.page_heap.store()->ListSpans(from, views, kSpansAtOnce);
    bool go_on = n > 0;
    for (size_t i = 0; i < n && go_on; ++i) {
      ForEachHeaderIn(heap, views[i], [&](DebugObject* object) { go_on = go_on && f(object); });
    }
    ReleaseHeap();
    if (!go_on) return;
    from = views[n - 1].first_page + views[n - 1].num_pages;
  }
}

// True if the object is damaged, as far as a thread that does not own it can tell.
//
// Another thread may free a live object at any time, and the memory may be used again. The red
// zones are constant while the object is live. So the damage is real if the object was live and had
// the same number before and after the zones were read.
//
// Nothing writes to a freed object while it is in the queue, and it cannot leave the queue while
// this thread holds the queue's lock. That lock is taken only if there seems to be damage.
bool IsDamaged(const DebugObject& object) {
  if (object.Is(DebugObject::kLive)) {
    const uint64_t number = object.number;
    if (!object.ChecksumFits()) {
      // This is correct also while another thread writes a new header, which is not live before it
      // is complete.
      return object.Is(DebugObject::kLive) && !object.ChecksumFits() && object.number == number;
    }
    if (!DamageAround(object).found) return false;
    std::atomic_thread_fence(std::memory_order_acquire);
    return object.Is(DebugObject::kLive) && object.number == number && object.ChecksumFits() &&
           DamageAround(object).found;
  }
  if (!object.Is(DebugObject::kFreed) || object.fenced) return false;
  if (object.ChecksumFits() && !DamageOfFreed(object).found) return false;
  bool damaged = false;
  free_queue.IfInside(object,
                      [&] { damaged = !object.ChecksumFits() || DamageOfFreed(object).found; });
  return damaged;
}

}  // namespace

RawMemory RawMemoryAt(const void* p) {
  if (!PageMap::InRange(p)) return {};
  const SizeClass c = global_page_map.ClassOf(p);
  const Span* const span = global_page_map.SpanOf(PageId::Containing(p));
  if (span == nullptr || !span->Contains(p)) return {};
  auto* const start = static_cast<char*>(span->start_address());
  if (c != SizeClass::kNone) {
    const size_t offset = static_cast<size_t>(static_cast<const char*>(p) - start);
    const size_t size = kSizeClasses.size(c);
    return {start + kSizeClasses.ObjectIndex(c, offset) * size, size};
  }
  if (!span->Is(SpanState::kLarge)) return {};
  return {start, span->object_bytes()};
}

DebugObject* FindObject(const void* pointer, const char* call) {
  const auto* const p = static_cast<const char*>(pointer);
  if (InStrayChild()) return FindInStrayChild(p);
  RawMemory raw = RawMemoryAt(p);
  if (raw.start == nullptr && IsInsideOfHeap(p)) {
    if (DebugObject* const object = AlignedObjectAt(p)) return object;
    raw = LargeMemoryAround(p);
  }
  if (raw.start == nullptr) return nullptr;
  const bool query = call == nullptr;
  if (query) call = kSizeQuery;
  if (GlobalHeap().settings.page_fence && !IsReadable(reinterpret_cast<uintptr_t>(raw.start))) {
    ReportFencedFree(raw.start, p, call);
  }
  if (HasRoomForHeader(raw, p)) {
    DebugObject* const object = DebugObject::Of(p);
    if (object->Is(DebugObject::kLive)) {
      if (!object->ChecksumFits()) ReportDamagedHeader(*object, call);
      return object;
    }
    if (object->IsMarked()) ReportSecondFree(*object, call);
  }
  if (query) return nullptr;
  ReportNoObject(raw, p, call);
}

Damage DamageAround(const DebugObject& object) {
  const Damage before = DamageOf(object, reinterpret_cast<const char*>(object.before),
                                 sizeof(object.before), kRedZoneByte);
  if (before.found) return before;
  return DamageOf(object, object.object() + object.size, object.bytes_after(), kRedZoneByte);
}

Damage DamageOfFreed(const DebugObject& object) {
  if (object.filled) {
    const Damage inside = DamageOf(object, object.object(), object.size, kFreedByte);
    if (inside.found) return inside;
  }
  return DamageAround(object);
}

void CheckRedZones(const DebugObject& object, const char* call) {
  if (!object.ChecksumFits()) ReportDamagedHeader(object, call);
  const Damage damage = DamageAround(object);
  if (damage.found) ReportDamage(object, call, damage);
}

void CheckFreed(const DebugObject& object) {
  if (!object.ChecksumFits()) ReportDamagedHeader(object, nullptr);
  const Damage damage = DamageOfFreed(object);
  if (damage.found) ReportWriteAfterFree(object, damage);
}

void ForEachLiveObject(Heap& heap, void (*f)(void* argument, const DebugObject& object),
                       void* argument) {
  ForEachHeader(heap, [&](const DebugObject* object) {
    if (object->Is(DebugObject::kLive)) f(argument, *object);
    return true;
  });
}

void VerifyHeap(Heap& heap) {
  DebugObject* damaged = nullptr;
  ForEachHeader(heap, [&](DebugObject* object) {
    if (IsDamaged(*object)) damaged = object;
    return damaged == nullptr;
  });
  if (damaged == nullptr) return;
  if (damaged->Is(DebugObject::kLive)) {
    CheckRedZones(*damaged, kCall);
  } else {
    CheckFreed(*damaged);
  }
}

void VerifyOne(const void* p, AllocatedBy by) {
  if (p == nullptr) return;
  const DebugObject* const object = FindObject(p, kCall);
  if (object == nullptr) ReportNothingThere(p, kCall);
  if (object->allocated_by != by) ReportMismatch(*object, kCall);
  CheckRedZones(*object, kCall);
}

}  // namespace tcmalloc
