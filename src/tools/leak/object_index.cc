// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/object_index.h"

#include <algorithm>

#include "base/check.h"
#include "cache/thread_cache.h"
#include "central/central_free_list.h"
#include "heap/heap.h"

namespace tcmalloc {
namespace {

bool HasSmallObjects(const Span& span, SpanState state) {
  return state == SpanState::kSmall && SpanOwner::Of(&span).counted();
}

size_t LargeObjectBytes(const Span& span) {
  return span.sampled_class == SizeClass::kNone ? span.bytes()
                                                : kSizeClasses.size(span.sampled_class);
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

bool ObjectIndex::Build(Heap& heap) {
  if (heap.page_heap.address_space().is_moving()) settled_ = false;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    objects_per_span_[i] =
        static_cast<uint32_t>(heap.central.free_list(static_cast<SizeClass>(i)).objects_per_span());
  }
  root_ = memory_.AllocateArray<uint64_t*>(PageMap::kRootEntries);
  if (root_ == nullptr) return false;
  // First pass: numbers and address range.
  size_t spans = 0;
  size_t large_spans = 0;
  size_t numbers = 0;
  uintptr_t lowest = UINTPTR_MAX;
  uintptr_t highest = 0;
  ForEachSpan(heap, [&](const Span* span, bool large) {
    ++spans;
    large_spans += large;
    numbers =
        large ? numbers + 1 : WordsForBits(numbers) * kBitsPerWord + size_t{span->num_objects};
    const uintptr_t start = span->first_page.start_uintptr();
    lowest = std::min(lowest, start);
    highest = std::max(highest, start + (span->bytes() - 1));
    return true;
  });
  num_numbers_ = numbers;
  records_ = memory_.AllocateArray<SpanRecord>(spans);
  in_use_ = memory_.AllocateArray<uint64_t>(WordsForBits(numbers));
  large_by_span_ = memory_.AllocateArray<uint32_t>(large_spans);
  if (records_ == nullptr || in_use_ == nullptr || large_by_span_ == nullptr) return false;
  if (spans > 0) {
    lowest_ = lowest;
    extent_ = highest - lowest + 1;
  }
  numbers = 0;
  const bool added = ForEachSpan(heap, [&](const Span* span, bool large) {
    return large ? AddLarge(span, &numbers) : AddSmall(span, &numbers);
  });
  if (!added) return false;
  TC_CHECK(num_records_ == spans && numbers == num_numbers_);
  std::sort(large_by_span_, large_by_span_ + num_large_,
            [this](uint32_t a, uint32_t b) { return records_[a].span < records_[b].span; });
  RemoveClaimed(heap);
  if (!RemoveCached(heap)) return false;
  Count();
  return true;
}

bool ObjectIndex::SetEntries(PageId first, Length n, uint64_t entry, uint64_t step) {
  for (PageId page = first; page < first + n; page += Length(1), entry += step) {
    uint64_t*& leaf = root_[page.index() >> PageMap::kLeafBits];
    if (leaf == nullptr) {
      leaf = memory_.AllocateArray<uint64_t>(PageMap::kLeafPages);
      if (leaf == nullptr) return false;
    }
    leaf[page.index() & (PageMap::kLeafPages - 1)] = entry;
  }
  return true;
}

bool ObjectIndex::AddLarge(const Span* span, size_t* numbers) {
  const size_t record = num_records_++;
  records_[record] = {.span = span,
                      .start = span->first_page.start_uintptr(),
                      .object_bytes = LargeObjectBytes(*span),
                      .first_number = *numbers,
                      .num_objects = 1,
                      .size_class = SizeClass::kNone,
                      .zero_filled = span->zero_filled};
  large_by_span_[num_large_++] = static_cast<uint32_t>(record);
  SetBit(in_use_, *numbers);
  *numbers += 1;
  return SetEntries(span->first_page, span->num_pages,
                    uint64_t{record} << kPayloadShift | kLargeEntry, 0);
}

bool ObjectIndex::AddSmall(const Span* span, size_t* numbers) {
  const SizeClass c = SpanOwner::Of(span).size_class();
  *numbers = WordsForBits(*numbers) * kBitsPerWord;
  records_[num_records_++] = {.span = span,
                              .start = span->first_page.start_uintptr(),
                              .object_bytes = kSizeClasses.size(c),
                              .first_number = *numbers,
                              .num_objects = span->num_objects,
                              .size_class = c,
                              .zero_filled = span->zero_filled};
  uint64_t* const in_use = in_use_ + *numbers / kBitsPerWord;
  SetFirstBits(in_use, span->num_objects);
  for (size_t w = 0; w < WordsForBits(span->num_objects); ++w) in_use[w] &= ~span->free_bits[w];
  const uint64_t first_number = *numbers;
  *numbers += span->num_objects;
  return SetEntries(span->first_page, span->num_pages,
                    first_number << kPayloadShift | uint64_t{Index(c)},
                    uint64_t{1} << kPageInSpanShift);
}

void ObjectIndex::RemoveFree(uintptr_t object) {
  LiveObject found;
  if (Find(object, &found) && found.start == object) ClearBit(in_use_, found.number);
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

bool ObjectIndex::AddInFlight(uintptr_t object) {
  if (num_in_flight_ == in_flight_capacity_) {
    const size_t capacity = in_flight_capacity_ == 0 ? 512 : 2 * in_flight_capacity_;
    uintptr_t* const larger = memory_.AllocateArray<uintptr_t>(capacity);
    if (larger == nullptr) return false;
    std::copy_n(in_flight_, num_in_flight_, larger);
    in_flight_ = larger;
    in_flight_capacity_ = capacity;
  }
  in_flight_[num_in_flight_++] = object;
  return true;
}

void ObjectIndex::Count() {
  ForEach([this](const LiveObject& object) {
    ++num_objects_;
    object_bytes_ += object.bytes;
  });
}

bool ObjectIndex::Find(uintptr_t address, LiveObject* object) const {
  if (address - lowest_ >= extent_) return false;
  const uint64_t entry = EntryOf(address);
  if (entry == kNoEntry) return false;
  if (IsLarge(entry)) {
    const SpanRecord& record = RecordOf(entry);
    if (address - record.start >= record.object_bytes) return false;
    *object = {record.start, record.object_bytes, record.first_number};
    return true;
  }
  const Place place = PlaceIn(entry, address);
  if (place.index >= objects_per_span(ClassOfEntry(entry))) return false;
  *object = {address - place.offset, kSizeClasses.size(ClassOfEntry(entry)),
             PayloadOf(entry) + place.index};
  return IsInUse(object->number);
}

const ObjectIndex::SpanRecord& ObjectIndex::RecordWithNumber(size_t number) const {
  const SpanRecord* const after =
      std::upper_bound(records_, records_ + num_records_, number,
                       [](size_t n, const SpanRecord& record) { return n < record.first_number; });
  return after[-1];
}

LiveObject ObjectIndex::ObjectWithNumber(size_t number) const {
  return ObjectIn(RecordWithNumber(number), number);
}

const void* ObjectIndex::SampleOf(const LiveObject& object) const {
  const SpanRecord& record = RecordWithNumber(object.number);
  return record.size_class == SizeClass::kNone ? record.span->sample : nullptr;
}

const ObjectIndex::SpanRecord* ObjectIndex::LargeBySpan(uintptr_t span) const {
  const uint32_t* const first = large_by_span_;
  const uint32_t* const end = first + num_large_;
  const uint32_t* const found =
      std::lower_bound(first, end, span, [this](uint32_t record, uintptr_t address) {
        return reinterpret_cast<uintptr_t>(records_[record].span) < address;
      });
  if (found == end || reinterpret_cast<uintptr_t>(records_[*found].span) != span) return nullptr;
  return &records_[*found];
}

}  // namespace tcmalloc
