// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/debug/verify.h"

#include "central/shard.h"
#include "instruments/debug/checks.h"
#include "instruments/debug/find_object.h"
#include "instruments/debug/free_queue.h"
#include "instruments/debug/report.h"
#include "os/frame_mark.h"
#include "process/heap.h"
#include "process/fork.h"

namespace tcmalloc {
namespace {

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
