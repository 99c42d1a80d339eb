// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/marker.h"

#include <algorithm>
#include <bit>

#include "base/tuning.h"
#include "os/raw_memory.h"
#include "tools/leak/root_map.h"

namespace tcmalloc {
namespace {

// Clears the bit; false when it was clear.
bool TakeBit(uint64_t* bits, size_t i) {
  uint64_t& word = bits[i / kBitsPerWord];
  const uint64_t bit = uint64_t{1} << (i % kBitsPerWord);
  if ((word & bit) == 0) return false;
  word &= ~bit;
  return true;
}

uintptr_t LoadWord(uintptr_t address) { return LoadRaw<uintptr_t>(address); }

}  // namespace

Marker::Marker(const ObjectIndex& index, CheckMemory& memory, const Options& options)
    : index_(index),
      memory_(memory),
      options_(options),
      heap_{index.lowest(), index.extent()},
      backed_(memory.hardware_page_size()),
      conditional_(memory) {}

bool Marker::Prepare() {
  static_cast<void>(backed_.Open());  // without it all pages count as touched
  const size_t words = WordsForBits(index_.num_numbers());
  unmarked_ = memory_.AllocateArray<uint64_t>(words);
  if (unmarked_ == nullptr || !noted_.Prepare(memory_, index_.num_numbers()) ||
      !ring_.Prepare(memory_, options_.ring_objects)) {
    return false;
  }
  std::copy_n(index_.in_use(), words, unmarked_);
  to_find_ = unmarked_;
  sweep_objects_ = std::max(
      {size_t{1}, options_.ring_objects / 2, words / kTuning.leak_check.words_per_swept_object});
  bool enough_memory = true;
  index_.ForEachInFlight([&](uintptr_t object) { enough_memory &= AddPointer(object); });
  return enough_memory;
}

// ---- Finding objects.

void Marker::Consider(uintptr_t word) {
  if (heap_.Contains(word) && ConsiderInHeap(word)) return;
  if (conditional_.MayContain(word)) ConsiderConditional(word);
}

bool Marker::ConsiderInHeap(uintptr_t word) {
  // Prefetch before the lookup: its two loads often miss the nearest cache, and the next object of
  // a list arrives meanwhile. Not while many objects wait: this one would be evicted before its
  // turn.
  if (ring_.size() < kTuning.leak_check.cached_objects)
    __builtin_prefetch(reinterpret_cast<const void*>(word));
  Target target;
  bool in_pages;
  if (!FindTarget(word, &target, &in_pages)) return in_pages;
  if (!TakeBit(to_find_, target.number)) return true;
  if (ring_.accepts()) {
    ring_.Push(MarkItem(target.start, target.entry));
  } else {
    Note(target.number);
  }
  return true;
}

void Marker::ConsiderWord(uintptr_t word) { Consider(word); }

void Marker::ConsiderWordInHeap(uintptr_t word) { ConsiderInHeap(word); }

bool Marker::FindTarget(uintptr_t word, Target* target, bool* in_pages) const {
  const uint64_t entry = target->entry = index_.EntryOf(word);
  *in_pages = entry != ObjectIndex::kNoEntry;
  if (!*in_pages) return false;
  if (__builtin_expect(!ObjectIndex::IsLarge(entry), true)) {
    const ObjectIndex::Place place = ObjectIndex::PlaceIn(entry, word);
    if (place.offset > options_.max_pointer_offset) return false;
    if (place.index >= index_.objects_per_span(ObjectIndex::ClassOfEntry(entry))) return false;
    target->start = word - place.offset;
    target->number = ObjectIndex::PayloadOf(entry) + place.index;
    return true;
  }
  const ObjectIndex::SpanRecord& record = index_.RecordOf(entry);
  const size_t offset = word - record.start;
  if (offset >= record.object_bytes || offset > options_.max_pointer_offset) return false;
  target->start = record.start;
  target->number = record.first_number;
  return true;
}

void Marker::ConsiderLater(uintptr_t word) {
  // No branch that depends on the word: it could not be predicted.
  batch_.words[batch_.n] = word;
  batch_.n += heap_.Contains(word) ? 1 : 0;
  if (conditional_.MayContain(word)) ConsiderConditional(word);
  if (batch_.n == kTuning.leak_check.waiting_words) ConsiderBatch();
}

void Marker::ConsiderBatch() {
  size_t numbers[kTuning.leak_check.waiting_words];
  size_t n = 0;
  for (size_t i = 0; i < batch_.n; ++i) {
    Target target;
    bool in_pages;
    if (!FindTarget(batch_.words[i], &target, &in_pages)) continue;
    __builtin_prefetch(&to_find_[target.number / kBitsPerWord]);
    noted_.Prefetch(target.number);
    numbers[n++] = target.number;
  }
  batch_.n = 0;
  for (size_t i = 0; i < n; ++i) {
    if (TakeBit(to_find_, numbers[i])) Note(numbers[i]);
  }
}

void Marker::Note(size_t number) {
  ++counts_.overflows;
  noted_.Add(number);
  if (noted_.size() >= sweep_objects_) ring_.Close();
}

void Marker::ConsiderConditional(uintptr_t word) { conditional_.Reach(word); }

// ---- Scanning.

void Marker::ScanWords(uintptr_t start, uintptr_t end) {
  const uintptr_t step = options_.pointer_source_alignment;
  if (end - start < sizeof(uintptr_t)) return;
  if (__builtin_expect(options_.reader != nullptr, false)) return ScanCopied(start, end);
  const uintptr_t first = (start + step - 1) & ~(step - 1);
  const uintptr_t last = end - sizeof(uintptr_t);
  if (sweeping_) {
    for (uintptr_t at = first; at <= last; at += step) ConsiderLater(LoadWord(at));
  } else if (step == sizeof(uintptr_t)) {
    for (uintptr_t at = first; at <= last; at += sizeof(uintptr_t)) Consider(LoadWord(at));
  } else {
    for (uintptr_t at = first; at <= last; at += step) Consider(LoadWord(at));
  }
}

void Marker::ScanCopied(uintptr_t start, uintptr_t end) {
  const uintptr_t step = options_.pointer_source_alignment;
  // The last words of a page extend this far into the next page.
  const uintptr_t overlap = sizeof(uintptr_t) - step;
  const uintptr_t first = (start + step - 1) & ~(step - 1);
  for (uintptr_t at = first; at < end && end - at >= sizeof(uintptr_t);) {
    const uintptr_t page_end = ((at + overlap) / kCopiedBytes + 1) * kCopiedBytes;
    const uintptr_t stop = std::min(end, page_end);
    const size_t n = options_.reader->Copy(copied_, at, stop - at);
    for (size_t i = 0; i + sizeof(uintptr_t) <= n; i += step) {
      const uintptr_t word = LoadWord(reinterpret_cast<uintptr_t>(copied_) + i);
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

void Marker::ScanReadable(uintptr_t start, uintptr_t end, Pages pages) {
  size_t read = 0;
  ForEachOutside(start, end, unreadable_.ranges, unreadable_.n,
                 [&](uintptr_t part_start, uintptr_t part_end) {
                   ScanLong(part_start, part_end, pages);
                   read += part_end - part_start;
                 });
  counts_.unread_bytes += end - start - read;
}

void Marker::ScanLong(uintptr_t start, uintptr_t end, Pages pages) {
  if (pages == Pages::kAll || end - start < kTuning.leak_check.probed_root_bytes)
    return ScanWords(start, end);
  AddressRange rest = {start, end};
  for (AddressRange part; backed_.TakeFirst(&rest, BackedPages::Want::kAny, &part);) {
    ScanWords(part.start, part.end);
  }
}

void Marker::ScanRange(const MarkRange& range) {
  if (range.kind == MarkRange::Kind::kStack) {
    ScanStack(range.start, range.end);
  } else {
    ScanLong(range.start, range.end, range.pages);
  }
  counts_.range_bytes += range.end - range.start;
}

void Marker::ScanObject(MarkItem item) {
  const uintptr_t start = item.start();
  const uint64_t kind = item.kind();
  size_t bytes;
  if (__builtin_expect(kind != ObjectIndex::kLargeEntry, true)) {
    bytes = kSizeClasses.size(static_cast<SizeClass>(kind));
    if (__builtin_expect(start >= unreadable_.end, true)) {
      ScanWords(start, start + bytes);
    } else {
      ScanReadable(start, start + bytes, Pages::kAll);
    }
  } else {
    const ObjectIndex::SpanRecord& record = index_.RecordOf(index_.EntryOf(start));
    bytes = record.object_bytes;
    ScanReadable(start, start + bytes, record.zero_filled ? Pages::kTouched : Pages::kAll);
  }
  ++counts_.objects;
  counts_.object_bytes += bytes;
}

// ---- Scanning all that was found.

void Marker::Drain() {
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

void Marker::DrainRing() {
  MarkQueue queue;
  for (;;) {
    while (!queue.full() && !ring_.empty()) queue.Add(ring_.TakeFirst());
    if (queue.empty()) return;
    ScanObject(queue.TakeFirst());
  }
}

void Marker::TakeNoted() {
  while (noted_.size() > 0 && !ring_.is_full()) ring_.Push(ItemWithNumber(noted_.TakeFirst()));
}

void Marker::SweepNoted() {
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

MarkItem Marker::ItemWithNumber(size_t number) {
  const ObjectIndex::SpanRecord* record = last_record_;
  if (record == nullptr || number - record->first_number >= record->num_objects) {
    record = last_record_ = &index_.RecordWithNumber(number);
  }
  const uintptr_t start = record->start + (number - record->first_number) * record->object_bytes;
  const uint64_t kind = record->size_class == SizeClass::kNone
                            ? ObjectIndex::kLargeEntry
                            : uint64_t{Index(record->size_class)};
  return MarkItem(start, kind);
}

bool Marker::Run() {
  if (!conditional_.Prepare()) return false;
  for (const uintptr_t word : pointers_) Consider(word);
  pointers_.Clear();
  for (const MarkRange& range : ranges_) {
    ScanRange(range);
    Drain();
  }
  ranges_.Clear();
  Drain();
  while (const MarkRange* const range = conditional_.TakeReached()) {
    ScanRange(*range);
    Drain();
  }
  return !conditional_.lacked_memory();
}

size_t Marker::num_unmarked() const {
  size_t n = 0;
  for (size_t w = 0; w < WordsForBits(index_.num_numbers()); ++w) {
    n += static_cast<size_t>(std::popcount(unmarked_[w]));
  }
  return n;
}

}  // namespace tcmalloc
