// SPDX-License-Identifier: BSD-3-Clause
// ObjectIndexOf: a set of objects in use, found by any address inside them. It is filled with spans
// and free objects, and uses only the addresses of objects: it never reads their memory.
//
// Small objects lie in spans that are divided into objects of one size class. A large object has a
// span of its own.
//
// Geometry says how pages and size classes are laid out. It has
//   kRootEntries, kLeafBits    leaves of the table of pages, pages of a leaf (2^kLeafBits)
//   page_shift()               the binary logarithm of a page's size
//   size(c)                    bytes of an object of class c; classes are 1 to 254
//   ObjectAt(c, offset)        the number of the object of class c at an offset in its span
//
// "In flight" means that it is unknown whether an object is in use or free
// (instruments/leaks/heap_objects.h). An object in flight counts as in use.
//
// Numbers. Objects are numbered in the order in which they are added, with gaps: a small span's
// numbers begin at a multiple of 64, so that its bitmap is copied word by word.
//
// Thread safety: one thread fills it, then it is constant. Cost: to fill it, a step per span, per
// page and per free object; 8 bytes per page, 40 per span, 2 bits per object.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bitmap.h"
#include "base/compiler.h"
#include "formats/marker/searched_memory.h"

namespace tcmalloc {

// An object in use.
struct LiveObject {
  uintptr_t start = 0;
  // Usable bytes: those of its size class; whole pages for a large object, unless it is a sampled
  // small one.
  size_t bytes = 0;
  size_t number = 0;
};

// A span with objects, as it is added.
struct SpanToMark {
  uintptr_t record = 0;  // the address of the allocator's record of it
  uintptr_t start = 0;
  size_t pages = 0;
  // The size of each object.
  size_t object_bytes = 0;
  uint32_t num_objects = 1;
  uint8_t size_class = 0;  // 0: one large object
  // True if pages that were never touched read as zeroes.
  bool zero_filled = false;
};

// The entry of the index for a page. For a page of a small span it has the size class, the index of
// the page in the span, and the number of the span's first object. For a page of a large object it
// has the index of the object's record.
struct PageEntry {
  static constexpr uint64_t kNone = 0;
  static constexpr uint64_t kLarge = 0xff;
  static constexpr int kPageInSpanShift = 8;
  static constexpr int kPayloadShift = 24;

  static constexpr size_t Class(uint64_t entry) { return entry & 0xff; }
  static constexpr bool IsLarge(uint64_t entry) { return (entry & 0xff) == kLarge; }
  static constexpr size_t PageInSpan(uint64_t entry) {
    return (entry >> kPageInSpanShift) & 0xffff;
  }
  static constexpr size_t Payload(uint64_t entry) {
    return static_cast<size_t>(entry >> kPayloadShift);
  }
};

template <typename Geometry>
class ObjectIndexOf {
 public:
  explicit ObjectIndexOf(ScratchMemory& memory, const Geometry& geometry = Geometry())
      : memory_(memory), geometry_(geometry) {}
  ObjectIndexOf(const ObjectIndexOf&) = delete;
  ObjectIndexOf& operator=(const ObjectIndexOf&) = delete;

  size_t num_objects() const { return num_objects_; }
  size_t object_bytes() const { return object_bytes_; }
  // All numbers are below this.
  size_t num_numbers() const { return num_numbers_; }

  // Finds the object in use that contains `address`. False when there is none.
  bool Find(uintptr_t address, LiveObject* object) const;
  bool IsInUse(size_t number) const { return TestBit(in_use_, number); }

  // Calls f(const LiveObject&) for every object in use, in the order of their addresses.
  template <typename F>
  void ForEach(F f) const {
    ForEachIn(in_use_, f);
  }
  // As ForEach, for the objects whose bits are set in `bits`, which has num_numbers() bits.
  template <typename F>
  void ForEachIn(const uint64_t* bits, F f) const;

  // Calls f(address) for every object that was in flight in some thread's bins.
  template <typename F>
  void ForEachInFlight(F f) const {
    for (const uintptr_t object : in_flight_) f(object);
  }

  // --- To fill it, in this order -----------------------------------------------------------------

  // The totals of all spans: each span is added to it, in the order of addresses.
  struct Extent {
    void Add(const SpanToMark& span, size_t span_bytes) {
      ++spans;
      large_spans += span.size_class == 0;
      numbers = span.size_class == 0
                    ? numbers + 1
                    : WordsForBits(numbers) * kBitsPerWord + size_t{span.num_objects};
      lowest = std::min(lowest, span.start);
      highest = std::max(highest, span.start + (span_bytes - 1));
    }

    size_t spans = 0;
    size_t large_spans = 0;
    size_t numbers = 0;
    uintptr_t lowest = UINTPTR_MAX;
    uintptr_t highest = 0;
  };
  // The functions that return a bool return false when there is no memory.
  [[nodiscard]] bool Reserve(const Extent& extent);
  void SetObjectsPerSpan(size_t size_class, uint32_t n) { objects_per_span_[size_class] = n; }
  // Adds the spans of the extent, in the same order. `free_bits` has the bits of the free objects
  // of a small span. Requires: a small span has as many objects as each span of its class, and at
  // most 2^16 pages; addresses have page_shift + kLeafBits bits and those of a root entry.
  [[nodiscard]] bool AddSpan(const SpanToMark& span, const uint64_t* free_bits);
  // Called after the last span. False when these were not the spans of the extent.
  [[nodiscard]] bool FinishSpans();
  // Removes an object that is free although its bit in the span is clear. Ignores other addresses.
  void RemoveFree(uintptr_t object);
  [[nodiscard]] bool AddInFlight(uintptr_t object) { return in_flight_.Push(memory_, object); }
  // Called after all other functions, and again after further objects were removed.
  void Count();

  // --- For the marker ----------------------------------------------------------------------------

  // The index of an object in a small span, and an offset in that object.
  struct Place {
    size_t index;
    size_t offset;
  };
  TC_FAST_PATH Place PlaceIn(uint64_t entry, uintptr_t address) const {
    const size_t c = PageEntry::Class(entry);
    const size_t page_bytes = size_t{1} << geometry_.page_shift();
    const size_t in_span = PageEntry::PageInSpan(entry) * page_bytes + (address & (page_bytes - 1));
    const size_t index = geometry_.ObjectAt(c, in_span);
    return {index, in_span - index * geometry_.size(c)};
  }
  size_t ClassBytes(size_t size_class) const { return geometry_.size(size_class); }

  struct SpanRecord {
    uintptr_t record;
    uintptr_t start;
    size_t object_bytes;
    size_t first_number;
    uint32_t num_objects;
    uint8_t size_class;  // 0: one large object
    bool zero_filled;
  };

  // The bounds within which all objects are.
  struct Bounds {
    uintptr_t lowest = 0;
    uintptr_t bytes = 0;
    bool Contain(uintptr_t address) const { return address - lowest < bytes; }
  };
  const Bounds& bounds() const { return bounds_; }
  // Requires: the address is in the bounds.
  TC_FAST_PATH uint64_t EntryOf(uintptr_t address) const {
    const uint64_t* const leaf = root_[address >> (geometry_.page_shift() + Geometry::kLeafBits)];
    if (leaf == nullptr) return PageEntry::kNone;
    return leaf[(address >> geometry_.page_shift()) & (kLeafPages - 1)];
  }
  // Requires: PageEntry::IsLarge(entry).
  const SpanRecord& RecordOf(uint64_t entry) const { return records_[PageEntry::Payload(entry)]; }
  // Requires: some object has this number.
  const SpanRecord& RecordWithNumber(size_t number) const;
  std::span<const SpanRecord> records() const { return {records_, num_records_}; }
  uint32_t objects_per_span(size_t size_class) const { return objects_per_span_[size_class]; }
  // By number.
  const uint64_t* in_use() const { return in_use_; }
  // Returns the large object whose span's record is at the address `word`, or, with `or_page`,
  // whose first page has that number. Null when there is none.
  const SpanRecord* LargeKnownAs(uintptr_t word, bool or_page) const;

 protected:
  LiveObject ObjectIn(const SpanRecord& record, size_t number) const {
    return {record.start + (number - record.first_number) * record.object_bytes,
            record.object_bytes, number};
  }

 private:
  static constexpr size_t kLeafPages = size_t{1} << Geometry::kLeafBits;
  static constexpr size_t kClasses = 256;

  // Sets the entries of `n` pages; each one is larger by `step` than the one before.
  [[nodiscard]] bool SetEntries(uintptr_t start, size_t n, uint64_t entry, uint64_t step);

  ScratchMemory& memory_;
  [[no_unique_address]] const Geometry geometry_;
  // As in a page map; null where there are no objects.
  uint64_t** root_ = nullptr;
  Bounds bounds_;
  SpanRecord* records_ = nullptr;
  size_t expected_records_ = 0;
  size_t num_records_ = 0;
  // Indices of the records of large objects, sorted by the addresses of their spans' records.
  uint32_t* large_by_record_ = nullptr;
  size_t num_large_ = 0;
  uint64_t* in_use_ = nullptr;
  size_t num_numbers_ = 0;
  // Used while spans are added.
  size_t next_number_ = 0;
  size_t num_objects_ = 0;
  size_t object_bytes_ = 0;
  std::array<uint32_t, kClasses> objects_per_span_ = {};
  ScratchArray<uintptr_t> in_flight_;
};

template <typename Geometry>
template <typename F>
void ObjectIndexOf<Geometry>::ForEachIn(const uint64_t* bits, F f) const {
  for (size_t r = 0; r < num_records_; ++r) {
    const SpanRecord& record = records_[r];
    const size_t end = record.first_number + record.num_objects;
    for (size_t number = record.first_number;; ++number) {
      number = FindSetBit(bits, number, end);
      if (number == end) break;
      f(ObjectIn(record, number));
    }
  }
}

template <typename Geometry>
bool ObjectIndexOf<Geometry>::Reserve(const Extent& extent) {
  expected_records_ = extent.spans;
  num_numbers_ = extent.numbers;
  root_ = memory_.AllocateArray<uint64_t*>(Geometry::kRootEntries);
  records_ = memory_.AllocateArray<SpanRecord>(extent.spans);
  in_use_ = memory_.AllocateArray<uint64_t>(WordsForBits(extent.numbers));
  large_by_record_ = memory_.AllocateArray<uint32_t>(extent.large_spans);
  if (root_ == nullptr || records_ == nullptr || in_use_ == nullptr ||
      large_by_record_ == nullptr) {
    return false;
  }
  if (extent.spans > 0) {
    bounds_ = {extent.lowest, extent.highest - extent.lowest + 1};
  }
  return true;
}

template <typename Geometry>
bool ObjectIndexOf<Geometry>::SetEntries(uintptr_t start, size_t n, uint64_t entry, uint64_t step) {
  const size_t first = start >> geometry_.page_shift();
  for (size_t page = first; page < first + n; ++page, entry += step) {
    uint64_t*& leaf = root_[page >> Geometry::kLeafBits];
    if (leaf == nullptr) {
      leaf = memory_.AllocateArray<uint64_t>(kLeafPages);
      if (leaf == nullptr) return false;
    }
    leaf[page & (kLeafPages - 1)] = entry;
  }
  return true;
}

template <typename Geometry>
bool ObjectIndexOf<Geometry>::AddSpan(const SpanToMark& span, const uint64_t* free_bits) {
  const bool is_large = span.size_class == 0;
  if (!is_large) next_number_ = WordsForBits(next_number_) * kBitsPerWord;
  const size_t first_number = next_number_;
  next_number_ += span.num_objects;
  const size_t record = num_records_++;
  records_[record] = {.record = span.record,
                      .start = span.start,
                      .object_bytes = span.object_bytes,
                      .first_number = first_number,
                      .num_objects = span.num_objects,
                      .size_class = span.size_class,
                      .zero_filled = span.zero_filled};
  if (is_large) {
    large_by_record_[num_large_++] = static_cast<uint32_t>(record);
    SetBit(in_use_, first_number);
    return SetEntries(span.start, span.pages,
                      uint64_t{record} << PageEntry::kPayloadShift | PageEntry::kLarge, 0);
  }
  uint64_t* const in_use = in_use_ + first_number / kBitsPerWord;
  SetFirstBits(in_use, span.num_objects);
  for (size_t w = 0; w < WordsForBits(span.num_objects); ++w) in_use[w] &= ~free_bits[w];
  return SetEntries(span.start, span.pages,
                    uint64_t{first_number} << PageEntry::kPayloadShift | span.size_class,
                    uint64_t{1} << PageEntry::kPageInSpanShift);
}

template <typename Geometry>
bool ObjectIndexOf<Geometry>::FinishSpans() {
  std::sort(large_by_record_, large_by_record_ + num_large_,
            [this](uint32_t a, uint32_t b) { return records_[a].record < records_[b].record; });
  return num_records_ == expected_records_ && next_number_ == num_numbers_;
}

template <typename Geometry>
void ObjectIndexOf<Geometry>::RemoveFree(uintptr_t object) {
  LiveObject found;
  if (Find(object, &found) && found.start == object) ClearBit(in_use_, found.number);
}

template <typename Geometry>
void ObjectIndexOf<Geometry>::Count() {
  num_objects_ = 0;
  object_bytes_ = 0;
  ForEach([this](const LiveObject& object) {
    ++num_objects_;
    object_bytes_ += object.bytes;
  });
}

template <typename Geometry>
bool ObjectIndexOf<Geometry>::Find(uintptr_t address, LiveObject* object) const {
  if (!bounds_.Contain(address)) return false;
  const uint64_t entry = EntryOf(address);
  if (entry == PageEntry::kNone) return false;
  if (PageEntry::IsLarge(entry)) {
    const SpanRecord& record = RecordOf(entry);
    if (address - record.start >= record.object_bytes) return false;
    *object = {record.start, record.object_bytes, record.first_number};
    return true;
  }
  const Place place = PlaceIn(entry, address);
  if (place.index >= objects_per_span(PageEntry::Class(entry))) return false;
  *object = {address - place.offset, ClassBytes(PageEntry::Class(entry)),
             PageEntry::Payload(entry) + place.index};
  return IsInUse(object->number);
}

template <typename Geometry>
const typename ObjectIndexOf<Geometry>::SpanRecord& ObjectIndexOf<Geometry>::RecordWithNumber(
    size_t number) const {
  const SpanRecord* const after =
      std::upper_bound(records_, records_ + num_records_, number,
                       [](size_t n, const SpanRecord& record) { return n < record.first_number; });
  return after[-1];
}

template <typename Geometry>
const typename ObjectIndexOf<Geometry>::SpanRecord* ObjectIndexOf<Geometry>::LargeKnownAs(
    uintptr_t word, bool or_page) const {
  const uint32_t* const first = large_by_record_;
  const uint32_t* const end = first + num_large_;
  const uint32_t* const found = std::lower_bound(
      first, end, word,
      [this](uint32_t record, uintptr_t wanted) { return records_[record].record < wanted; });
  if (found != end && records_[*found].record == word) return &records_[*found];
  const uintptr_t address = word << geometry_.page_shift();
  if (!or_page || address >> geometry_.page_shift() != word || !bounds_.Contain(address)) {
    return nullptr;
  }
  const uint64_t entry = EntryOf(address);
  const bool is_first = PageEntry::IsLarge(entry) && RecordOf(entry).start == address;
  return is_first ? &RecordOf(entry) : nullptr;
}

}  // namespace tcmalloc
