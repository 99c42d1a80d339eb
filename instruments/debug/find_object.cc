// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/find_object.h"

#include "instruments/debug/report.h"
#include "os/frame_mark.h"
#include "process/heap.h"
#include "process/fork.h"
#include "process/stray_child.h"

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

}  // namespace tcmalloc
