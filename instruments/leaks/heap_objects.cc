// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/heap_objects.h"

#include <algorithm>
#include <cstring>

#include "base/config.h"
#include "central/central_free_list.h"
#include "instruments/guard/guard_pool.h"
#include "instruments/red_zones/debug_object.h"
#include "process/heap.h"
#include "process/instrument_records.h"
#include "thread_cache/thread_cache.h"

namespace tcmalloc {
namespace {

constexpr size_t kHeaderBytes = kCacheLineSize;

constexpr size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

bool Copy(void* to, uintptr_t from, size_t bytes, const MemoryReader* reader) {
  if (reader != nullptr) return reader->Copy(to, from, bytes) == bytes;
  memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return true;
}

}  // namespace

char* CheckMemory::Map(size_t bytes) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  const size_t page = vm_.hardware_page_size();
  if (bytes > SIZE_MAX - kHeaderBytes - page) return nullptr;
  const Mapping mapping = vm_.Map(RoundUp(bytes + kHeaderBytes, page), page);
  if (mapping.start == nullptr) return nullptr;
  Header* const header = static_cast<Header*>(mapping.start);
  *header = {mappings_, mapping.bytes};
  mappings_ = header;
  mapped_bytes_ += mapping.bytes;
  return static_cast<char*>(mapping.start) + kHeaderBytes;
}

void* CheckMemory::Allocate(size_t bytes) {
  if (bytes > kChunkBytes / 8) return Map(bytes);
  bytes = RoundUp(bytes == 0 ? 1 : bytes, kCacheLineSize);
  if (bytes > chunk_left_) {
    char* const chunk = Map(kChunkBytes - kHeaderBytes);
    if (chunk == nullptr) return nullptr;
    chunk_ = chunk;
    chunk_left_ = kChunkBytes - kHeaderBytes;
  }
  void* const memory = chunk_;
  chunk_ += bytes;
  chunk_left_ -= bytes;
  return memory;
}

void CheckMemory::FreeAll() {
  while (Header* const header = mappings_) {
    mappings_ = header->next;
    // A mapping stays if the OS refuses because there are too many mappings.
    static_cast<void>(vm_.Unmap(header, header->bytes));
  }
  chunk_ = nullptr;
  chunk_left_ = 0;
  mapped_bytes_ = 0;
}

bool CheckMemory::Contains(uintptr_t address) const {
  for (const Header* header = mappings_; header != nullptr; header = header->next) {
    if (address - reinterpret_cast<uintptr_t>(header) < header->bytes) return true;
  }
  return false;
}

namespace {

bool HasSmallObjects(const Span& span, SpanState state) {
  return state == SpanState::kSmall && SpanOwner::Of(&span).counted();
}

// Calls f(slot) for every guarded object in use.
template <typename F>
void ForEachGuarded(const Heap& heap, F f) {
  const void* const pool = heap.guarded.pool.load(std::memory_order_acquire);
  if (pool != nullptr) static_cast<const GuardPool*>(pool)->ForEachInUse(f);
}

}  // namespace

template <typename F>
bool ObjectIndex::ForEachSpan(Heap& heap, F f) {
  SpanView views[kSpansAtOnce];
  PageId from;
  while (const size_t n = heap.page_heap.store()->ListSpans(from, views, kSpansAtOnce)) {
    for (size_t i = 0; i < n; ++i) {
      const SpanView& view = views[i];
      const bool large = view.state == SpanState::kLarge;
      if (!large && !HasSmallObjects(*view.span, view.state)) continue;
      if (!f(view.span, large)) return false;
    }
    from = views[n - 1].first_page + views[n - 1].num_pages;
  }
  return true;
}

SpanToMark ObjectIndex::Described(const Span* span, bool is_large) {
  SpanToMark described = {.record = reinterpret_cast<uintptr_t>(span),
                          .start = span->first_page.start_uintptr(),
                          .pages = span->num_pages.pages(),
                          .zero_filled = span->zero_filled};
  if (is_large) {
    described.object_bytes = span->object_bytes();
    return described;
  }
  const SizeClass c = SpanOwner::Of(span).size_class();
  described.object_bytes = kSizeClasses.size(c);
  described.num_objects = span->num_objects;
  described.size_class = static_cast<uint8_t>(Index(c));
  return described;
}

SpanToMark ObjectIndex::Described(const GuardSlot& slot) {
  const size_t last = (slot.place.pages + slot.place.page_bytes - 1) >> kPageShift;
  return {.record = reinterpret_cast<uintptr_t>(&slot.span),
          .start = slot.place.object,
          .pages = last + 1 - (slot.place.object >> kPageShift),
          // A pointer to an empty object counts as a pointer into it.
          .object_bytes = slot.object_bytes(),
          .zero_filled = slot.span.zero_filled};
}

bool ObjectIndex::AddGuarded(Heap& heap) {
  bool enough_memory = true;
  ForEachGuarded(heap, [&](const GuardSlot& slot) {
    enough_memory = enough_memory && AddSpan(Described(slot), nullptr);
  });
  return enough_memory;
}

bool ObjectIndex::Build(Heap& heap) {
  if (heap.page_heap.address_space().is_moving()) settled_ = false;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    SetObjectsPerSpan(i, static_cast<uint32_t>(
                             heap.central.free_list(static_cast<SizeClass>(i)).objects_per_span()));
  }
  Extent extent;
  ForEachSpan(heap, [&extent](const Span* span, bool is_large) {
    extent.Add(Described(span, is_large), span->bytes());
    return true;
  });
  ForEachGuarded(heap, [&extent](const GuardSlot& slot) {
    const SpanToMark object = Described(slot);
    extent.Add(object, object.object_bytes);
  });
  if (!Reserve(extent)) return false;
  const bool added = ForEachSpan(heap, [this](const Span* span, bool is_large) {
    return AddSpan(Described(span, is_large), is_large ? nullptr : span->free_bits);
  });
  if (!added || !AddGuarded(heap)) return false;
  TC_CHECK(FinishSpans());
  RemoveClaimed(heap);
  if (!RemoveCached(heap)) return false;
  Count();
  return true;
}

void ObjectIndex::RemoveClaimed(Heap& heap) {
  heap.holes.ForEachClaim([this](const Span* span, size_t first, size_t n) {
    const size_t size = kSizeClasses.size(SpanOwner::Of(span).size_class());
    for (size_t i = first; i < first + n; ++i) {
      RemoveFree(span->first_page.start_uintptr() + i * size);
    }
  });
}

bool ObjectIndex::RemoveCached(Heap& heap) {
  bool enough_memory = true;
  heap.registry.ForEachCache([&](const ThreadCache& cache, Registry::Holder holder) {
    const bool has_thread = holder == Registry::Holder::kThread;
    // The slot exists as long as its thread.
    const bool in_section =
        has_thread && cache.slot().busy.load(std::memory_order_relaxed) != ThreadSlot::kIdle;
    const bool changing = has_thread && cache.changing();
    if (changing) settled_ = false;
    cache.table().ForEachSlot([&](SizeClass, uintptr_t object, ptrdiff_t above_top) {
      if (changing || (in_section && above_top == 1)) {
        enough_memory &= AddInFlight(object);
      } else if (above_top <= 0) {
        RemoveFree(object);
      }
    });
  });
  return enough_memory;
}

ProgramObject ProgramObjectOf(const LiveObject& object, const MemoryReader* reader) {
  ProgramObject result = {.start = object.start, .bytes = object.bytes};
  if (!kHasRedZones) return result;
  OffsetRecord record;
  size_t room = sizeof(DebugObject);
  if (object.bytes < room) return result;
  if (!Copy(&record, object.start, sizeof(record), reader)) {
    // The object is protected by a page fence, as only freed objects are.
    result.state = ProgramObject::State::kFreed;
    return result;
  }
  const auto* const raw = reinterpret_cast<const void*>(object.start);
  if (record.mark == OffsetRecord::MarkAt(raw)) room = record.room;
  result.state = ProgramObject::State::kNotYet;
  if (room < sizeof(DebugObject) || room > object.bytes || room % kMinAlignment != 0) return result;
  // The checks depend on the header's address, which the copy does not have.
  alignas(DebugObject) char storage[sizeof(DebugObject)];
  const auto* const header = reinterpret_cast<const DebugObject*>(storage);
  const auto* const place = DebugObject::Of(reinterpret_cast<const void*>(object.start + room));
  if (!Copy(storage, reinterpret_cast<uintptr_t>(place), sizeof(storage), reader)) return result;
  const uint32_t state = header->state.load(std::memory_order_relaxed);
  if (state == place->Mark(DebugObject::kFreed) || state == place->Mark(DebugObject::kFreeing)) {
    result.state = ProgramObject::State::kFreed;
  }
  if (state != place->Mark(DebugObject::kLive) || header->size > object.bytes - room) {
    return result;
  }
  result.state = ProgramObject::State::kInUse;
  result.start = object.start + room;
  result.bytes = header->size;
  // Stacks are in the allocator's own memory, and are never freed.
  if (const CallStack* const stack = header->allocated_at) {
    result.frames = stack->frames;
    result.depth = stack->depth;
  }
  return result;
}

}  // namespace tcmalloc
