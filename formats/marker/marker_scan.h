// SPDX-License-Identifier: BSD-3-Clause
// The functions of MarkerOf that find and scan objects and scan stacks. Files that use a MarkerOf
// include it.
//
// Thread safety: none, as all of MarkerOf. Cost: see marker.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/address_range.h"
#include "formats/marker/marker.h"
#include "formats/marker/searched_memory.h"

namespace tcmalloc {

namespace mark {

// Clears the bit; false when it was clear.
inline bool TakeBit(uint64_t* bits, size_t i) {
  uint64_t& word = bits[i / kBitsPerWord];
  const uint64_t bit = uint64_t{1} << (i % kBitsPerWord);
  if ((word & bit) == 0) return false;
  word &= ~bit;
  return true;
}

}  // namespace mark

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::Prepare() {
  const size_t words = WordsForBits(index_.num_numbers());
  bitmaps_.unmarked = scratch_.AllocateArray<uint64_t>(words);
  far_.pointed_to = scratch_.AllocateArray<uint64_t>(words);
  if (bitmaps_.unmarked == nullptr || far_.pointed_to == nullptr ||
      !noted_.Prepare(scratch_, index_.num_numbers()) ||
      !ring_.Prepare(scratch_, options_.ring_objects)) {
    return false;
  }
  std::copy_n(index_.in_use(), words, bitmaps_.unmarked);
  bitmaps_.to_find = bitmaps_.unmarked;
  sweep_objects_ = std::max({size_t{1}, options_.ring_objects / 2, words / kWordsPerSweptObject});
  bool enough_memory = true;
  index_.ForEachInFlight([&](uintptr_t object) { enough_memory &= AddPointer(object); });
  return enough_memory;
}

// ---- Finding objects.

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::Consider(uintptr_t word) {
  if (heap_.Contain(word) && ConsiderInHeap(word)) return;
  if (conditional_.MayContain(word)) ConsiderConditional(word);
}

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::ConsiderInHeap(uintptr_t word) {
  // The object is prefetched before the lookup, whose two loads often miss the nearest cache, so
  // that the next object of a list arrives meanwhile. It is not prefetched while many objects wait,
  // since it would be evicted before its turn.
  if (ring_.size() < kCachedObjects) memory_.Prefetch(word);
  Target target;
  bool in_pages;
  if (!FindTarget(word, &target, &in_pages)) return in_pages;
  if (!mark::TakeBit(bitmaps_.to_find, target.number)) return true;
  if (ring_.accepts()) {
    ring_.Push(MarkItem(target.start, target.entry));
  } else {
    Note(target.number);
  }
  return true;
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ConsiderWord(uintptr_t word) {
  Consider(word);
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ConsiderWordInHeap(uintptr_t word) {
  ConsiderInHeap(word);
}

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::FindTarget(uintptr_t word, Target* target, bool* in_pages) const {
  const uint64_t entry = target->entry = index_.EntryOf(word);
  *in_pages = entry != PageEntry::kNone;
  if (!*in_pages) return false;
  if (__builtin_expect(!PageEntry::IsLarge(entry), true)) {
    const typename Index::Place place = index_.PlaceIn(entry, word);
    if (place.index >= index_.objects_per_span(PageEntry::Class(entry))) return false;
    target->start = word - place.offset;
    target->number = PageEntry::Payload(entry) + place.index;
    return place.offset <= far_.max_offset || NoteFar(target->number);
  }
  const typename Index::SpanRecord& record = index_.RecordOf(entry);
  const size_t offset = word - record.start;
  if (offset >= record.object_bytes) return false;
  target->start = record.start;
  target->number = record.first_number;
  return offset <= far_.max_offset || NoteFar(target->number);
}

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::NoteFar(size_t number) const {
  SetBit(far_.pointed_to, number);
  return false;
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ConsiderLater(uintptr_t word) {
  // There is no branch that depends on the word, since it could not be predicted.
  batch_.words[batch_.n] = word;
  batch_.n += heap_.Contain(word) ? 1 : 0;
  if (conditional_.MayContain(word)) ConsiderConditional(word);
  if (batch_.n == kWaitingWords) ConsiderBatch();
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ConsiderBatch() {
  size_t numbers[kWaitingWords];
  size_t n = 0;
  for (size_t i = 0; i < batch_.n; ++i) {
    Target target;
    bool in_pages;
    if (!FindTarget(batch_.words[i], &target, &in_pages)) continue;
    __builtin_prefetch(&bitmaps_.to_find[target.number / kBitsPerWord]);
    noted_.Prefetch(target.number);
    numbers[n++] = target.number;
  }
  batch_.n = 0;
  for (size_t i = 0; i < n; ++i) {
    if (mark::TakeBit(bitmaps_.to_find, numbers[i])) Note(numbers[i]);
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::Note(size_t number) {
  ++counts_.overflows;
  noted_.Add(number);
  if (noted_.size() >= sweep_objects_) ring_.Close();
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ConsiderConditional(uintptr_t word) {
  conditional_.Reach(word);
}

// ---- Scanning.

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanWords(uintptr_t start, uintptr_t end) {
  const uintptr_t step = options_.pointer_source_alignment;
  if (end - start < sizeof(Word)) return;
  uintptr_t by = 0;
  if (__builtin_expect(!memory_.FindDirect(start, end, &by), false)) return ScanCopied(start, end);
  const uintptr_t first = ((start + step - 1) & ~(step - 1)) + by;
  const uintptr_t last = end - sizeof(Word) + by;
  if (first <= last) counts_.words += (last - first) / step + 1;
  if (sweeping_) {
    for (uintptr_t at = first; at <= last; at += step) ConsiderLater(LoadRaw<Word>(at));
  } else if (step == sizeof(Word)) {
    for (uintptr_t at = first; at <= last; at += sizeof(Word)) Consider(LoadRaw<Word>(at));
  } else {
    for (uintptr_t at = first; at <= last; at += step) Consider(LoadRaw<Word>(at));
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanCopied(uintptr_t start, uintptr_t end) {
  const uintptr_t step = options_.pointer_source_alignment;
  // The last words of a page extend this far into the next page.
  const uintptr_t overlap = sizeof(Word) - step;
  const uintptr_t first = (start + step - 1) & ~(step - 1);
  for (uintptr_t at = first; at < end && end - at >= sizeof(Word);) {
    const uintptr_t page_end = ((at + overlap) / kCopiedBytes + 1) * kCopiedBytes;
    const uintptr_t stop = std::min(end, page_end);
    const size_t n = memory_.Copy(copied_, at, stop - at);
    if (n >= sizeof(Word)) counts_.words += (n - sizeof(Word)) / step + 1;
    for (size_t i = 0; i + sizeof(Word) <= n; i += step) {
      const uintptr_t word = LoadRaw<Word>(reinterpret_cast<uintptr_t>(copied_) + i);
      if (sweeping_) {
        ConsiderLater(word);
      } else {
        Consider(word);
      }
    }
    counts_.unread_bytes += stop - at - n;
    if (stop == end) return;
    at = stop - overlap;
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanReadable(uintptr_t start, uintptr_t end, Pages pages) {
  size_t read = 0;
  ForEachOutside(start, end, unreadable_.ranges, unreadable_.n,
                 [&](uintptr_t part_start, uintptr_t part_end) {
                   ScanLong(part_start, part_end, pages);
                   read += part_end - part_start;
                 });
  counts_.unread_bytes += end - start - read;
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanLong(uintptr_t start, uintptr_t end, Pages pages) {
  if (pages == Pages::kAll || end - start < kProbedRootBytes) return ScanWords(start, end);
  AddressRange rest = {start, end};
  for (AddressRange part; memory_.TakeFirst(&rest, WantedPages::kAny, &part);) {
    ScanWords(part.start, part.end);
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanRange(const MarkRange& range) {
  if (range.kind == MarkRange::Kind::kStack) {
    ScanStack(range.start, range.end);
  } else {
    ScanLong(range.start, range.end, range.pages);
  }
  counts_.range_bytes += range.end - range.start;
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanObject(MarkItem item) {
  const uintptr_t start = item.start();
  const uint64_t kind = item.kind();
  size_t bytes;
  if (__builtin_expect(kind != PageEntry::kLarge, true)) {
    bytes = index_.ClassBytes(kind);
    if (__builtin_expect(start >= unreadable_.end, true)) {
      ScanWords(start, start + bytes);
    } else {
      ScanReadable(start, start + bytes, Pages::kAll);
    }
  } else {
    const typename Index::SpanRecord& record = index_.RecordOf(index_.EntryOf(start));
    bytes = record.object_bytes;
    ScanReadable(start, start + bytes, record.zero_filled ? Pages::kTouched : Pages::kAll);
  }
  ++counts_.objects;
  counts_.object_bytes += bytes;
}

// ---- Scanning all that was found.

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::Drain() {
  for (;;) {
    DrainRing();
    if (noted_.size() >= sweep_objects_) {
      SweepNoted();
      continue;
    }
    ring_.Open();
    if (noted_.size() == 0) return;
    TakeNoted();
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::DrainRing() {
  MarkQueue queue;
  for (;;) {
    while (!queue.full() && !ring_.empty()) queue.Add(ring_.TakeFirst());
    if (queue.empty()) return;
    ScanObject(queue.TakeFirst());
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::TakeNoted() {
  while (noted_.size() > 0 && !ring_.is_full()) ring_.Push(ItemWithNumber(noted_.TakeFirst()));
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::SweepNoted() {
  MarkQueue queue;
  sweeping_ = true;
  noted_.Sweep([&](size_t number) {
    if (queue.full()) ScanObject(queue.TakeFirst());
    queue.Add(ItemWithNumber(number));
  });
  while (!queue.empty()) ScanObject(queue.TakeFirst());
  ConsiderBatch();
  sweeping_ = false;
}

template <typename Geometry, typename Memory>
MarkItem MarkerOf<Geometry, Memory>::ItemWithNumber(size_t number) {
  const typename Index::SpanRecord* record = last_record_;
  if (record == nullptr || number - record->first_number >= record->num_objects) {
    record = last_record_ = &index_.RecordWithNumber(number);
  }
  const uintptr_t start = record->start + (number - record->first_number) * record->object_bytes;
  const uint64_t kind = record->size_class == 0 ? PageEntry::kLarge : record->size_class;
  return MarkItem(start, kind);
}

template <typename Geometry, typename Memory>
bool MarkerOf<Geometry, Memory>::Run() {
  if (!conditional_.Prepare()) return false;
  for (const uintptr_t word : pointers_) Consider(word);
  pointers_.Clear();
  for (const MarkRange& range : ranges_) {
    ScanRange(range);
    Drain();
  }
  ranges_.Clear();
  Drain();
  DrainReached();
  return !conditional_.lacked_memory();
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::DrainReached() {
  while (const MarkRange* const range = conditional_.TakeReached()) {
    ScanRange(*range);
    Drain();
  }
}

template <typename Geometry, typename Memory>
size_t MarkerOf<Geometry, Memory>::num_unmarked() const {
  size_t n = 0;
  for (size_t w = 0; w < WordsForBits(index_.num_numbers()); ++w) {
    n += static_cast<size_t>(std::popcount(bitmaps_.unmarked[w]));
  }
  return n;
}

// Scans stacks: the words that may be pointers, and the objects that functions of the allocator
// have in flight there. While malloc returns a large object, or free gets it, a thread may refer to
// it only by its span: by the address of the span's record, anywhere on the stack, or by the number
// of its first page, in a register or in the innermost frames. Page numbers do not count in other
// frames, where they are more likely to be numbers of the program.
//
// Cost: two passes over a stack; the second one looks up
// each word among the records of large spans.
template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanStack(uintptr_t start, uintptr_t end) {
  ScanWords(start, end);
  const Word tag = static_cast<Word>(memory_.in_flight().tag);
  const uintptr_t first = (start + sizeof(Word) - 1) & ~(sizeof(Word) - 1);
  for (uintptr_t at = first; at + sizeof(Word) <= end; at += sizeof(Word)) {
    const uintptr_t word = LoadWord(memory_, at);
    if (word == static_cast<Word>(tag ^ at)) {
      ScanMark(at, end);
      continue;
    }
    const bool in_last_frames = at - first < kAllocatorStackBytes;
    const typename Index::SpanRecord* const large = index_.LargeKnownAs(word, in_last_frames);
    if (large != nullptr) ConsiderWord(large->start);
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanMark(uintptr_t at, uintptr_t end) {
  const InFlightLayout& layout = memory_.in_flight();
  // The scan works on a copy, since a function whose thread could not be stopped may return
  // meanwhile.
  alignas(uintptr_t) char record[kMaxRecordBytes];
  const auto copy = [&](size_t bytes) {
    if (end - at < bytes || bytes > sizeof(record)) return false;
    uintptr_t by = 0;
    if (!memory_.FindDirect(at, at + bytes, &by)) return memory_.Copy(record, at, bytes) == bytes;
    memcpy(record, reinterpret_cast<const void*>(at + by), bytes);
    return true;
  };
  const auto word_at = [&](size_t offset) -> uint64_t {
    return LoadRaw<Word>(reinterpret_cast<uintptr_t>(record) + offset);
  };
  if (!copy(2 * sizeof(Word))) return;
  const uint64_t kind = word_at(sizeof(Word));
  if (kind == layout.object_words_kind) {
    if (copy(layout.object_words_bytes)) ScanClaimed(record);
  } else if (kind == layout.bin_arrays_kind && copy(layout.bin_arrays_bytes)) {
    ScanArrays(word_at(layout.chain_at));
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanClaimed(const char* record) {
  const InFlightLayout& layout = memory_.in_flight();
  const auto at = reinterpret_cast<uintptr_t>(record);
  const size_t n = std::min<size_t>(LoadRaw<Word>(at + layout.num_words_at), layout.max_words);
  for (size_t i = 0; i < n; ++i) {
    const uintptr_t element = at + layout.words_at + i * layout.word_bytes;
    const uintptr_t first = LoadRaw<Word>(element);
    if (!heap_.Contain(first)) continue;
    const uint64_t entry = index_.EntryOf(first);
    if (entry == PageEntry::kNone || PageEntry::IsLarge(entry)) continue;
    const size_t size = index_.ClassBytes(PageEntry::Class(entry));
    for (uint64_t mask = LoadRaw<uint64_t>(element + layout.word_mask_at); mask != 0;
         mask &= mask - 1) {
      const uintptr_t object = first + static_cast<size_t>(std::countr_zero(mask)) * size;
      if (heap_.Contain(object)) ConsiderWordInHeap(object);
    }
  }
}

template <typename Geometry, typename Memory>
void MarkerOf<Geometry, Memory>::ScanArrays(uintptr_t first) {
  const InFlightLayout& layout = memory_.in_flight();
  uintptr_t at = first;
  for (size_t i = 0; at != 0 && i < kMaxChain; ++i) {
    const uintptr_t slots = at + layout.array_bytes;
    const size_t count = static_cast<uint16_t>(LoadWord(memory_, at + layout.array_count_at));
    for (size_t slot = 1; slot <= count; ++slot)
      ConsiderWord(LoadWord(memory_, slots + slot * sizeof(Word)));
    at = LoadWord(memory_, slots);
  }
}

}  // namespace tcmalloc
