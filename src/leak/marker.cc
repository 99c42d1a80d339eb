// SPDX-License-Identifier: BSD-3-Clause
#include "leak/marker.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/tuning.h"
#include "cache/bin_array.h"
#include "central/object_words.h"
#include "leak/root_map.h"
#include "os/raw_memory.h"

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
      heap_lowest_(index.lowest()),
      heap_extent_(index.extent()),
      backed_(memory.hardware_page_size()),
      list_limit_(options.list_objects) {}

bool Marker::Prepare() {
  static_cast<void>(backed_.Open());  // else all counts as touched
  const size_t words = WordsForBits(index_.num_numbers());
  unmarked_ = memory_.AllocateArray<uint64_t>(words);
  noted_ = memory_.AllocateArray<uint64_t>(words);
  list_ = memory_.AllocateArray<Item>(options_.list_objects);
  if (unmarked_ == nullptr || noted_ == nullptr || list_ == nullptr) return false;
  std::copy_n(index_.in_use(), words, unmarked_);
  to_find_ = unmarked_;
  noted_begin_ = words;
  sweep_objects_ = std::max(
      {size_t{1}, options_.list_objects / 2, words / kTuning.leak_check.words_per_swept_object});
  bool enough_memory = true;
  index_.ForEachInFlight([&](uintptr_t object) { enough_memory &= AddPointer(object); });
  return enough_memory;
}

// Finding.

void Marker::Consider(uintptr_t word) {
  if (word - heap_lowest_ < heap_extent_ && ConsiderInHeap(word)) return;
  if (word - conditional_lowest_ < conditional_extent_) ConsiderConditional(word);
}

bool Marker::ConsiderInHeap(uintptr_t word) {
  // Before it is known whether there is an object that has not been found: that takes two loads
  // which are seldom in the nearest cache, and the next of a list is then on its way. Where many
  // are waiting, it would be gone again before its turn comes.
  if (list_size_ < kTuning.leak_check.cached_objects)
    __builtin_prefetch(reinterpret_cast<const void*>(word));
  Target target;
  bool in_pages;
  if (!FindTarget(word, &target, &in_pages)) return in_pages;
  if (!TakeBit(to_find_, target.number)) return true;
  if (list_size_ >= list_limit_) {
    Note(target.number);
  } else {
    Push(ItemOf(target.start, target.entry));
  }
  return true;
}

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
  // No branch that depends on what the words are: there is no telling.
  waiting_[num_waiting_] = word;
  num_waiting_ += word - heap_lowest_ < heap_extent_ ? 1 : 0;
  if (word - conditional_lowest_ < conditional_extent_) ConsiderConditional(word);
  if (num_waiting_ == kTuning.leak_check.waiting_words) ConsiderWaiting();
}

void Marker::ConsiderWaiting() {
  size_t numbers[kTuning.leak_check.waiting_words];
  size_t n = 0;
  for (size_t i = 0; i < num_waiting_; ++i) {
    Target target;
    bool in_pages;
    if (!FindTarget(waiting_[i], &target, &in_pages)) continue;
    __builtin_prefetch(&to_find_[target.number / kBitsPerWord]);
    __builtin_prefetch(&noted_[target.number / kBitsPerWord]);
    numbers[n++] = target.number;
  }
  num_waiting_ = 0;
  for (size_t i = 0; i < n; ++i) {
    if (TakeBit(to_find_, numbers[i])) Note(numbers[i]);
  }
}

void Marker::Note(size_t number) {
  ++counts_.overflows;
  if (++num_noted_ >= sweep_objects_) list_limit_ = 0;
  const size_t word = number / kBitsPerWord;
  SetBit(noted_, number);
  noted_begin_ = std::min(noted_begin_, word);
  noted_end_ = std::max(noted_end_, word + 1);
}

void Marker::ConsiderConditional(uintptr_t word) {
  const Range* const behind =
      std::upper_bound(conditional_.begin(), conditional_.end(), word,
                       [](uintptr_t address, const Range& range) { return address < range.start; });
  if (behind == conditional_.begin() || word >= behind[-1].end) return;
  const size_t i = static_cast<size_t>(behind - 1 - conditional_.begin());
  if (TestBit(conditional_reached_, i)) return;
  SetBit(conditional_reached_, i);
  out_of_memory_ |= !reached_.Push(memory_, static_cast<uint32_t>(i));
}

// Scanning.

uintptr_t Marker::Load(uintptr_t address) const {
  return options_.reader == nullptr ? LoadWord(address) : options_.reader->Word(address);
}

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
  // Of a page's last words so much lies in the next one.
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
  ForEachOutside(start, end, unreadable_, num_unreadable_,
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

void Marker::ScanStack(uintptr_t start, uintptr_t end) {
  ScanWords(start, end);
  const uintptr_t first = (start + sizeof(uintptr_t) - 1) & ~(sizeof(uintptr_t) - 1);
  for (uintptr_t at = first; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
    const uintptr_t word = Load(at);
    if (word == InFlightMark::TagAt(at)) {
      ScanMark(at, end);
    } else if (const ObjectIndex::SpanRecord* const large = index_.LargeBySpan(word)) {
      Consider(large->start);
    }
  }
}

void Marker::ScanMark(uintptr_t at, uintptr_t end) {
  // Looked at as a copy: the frame may go meanwhile, where threads could not be stopped.
  alignas(ObjectWordsInFlight) char record[sizeof(ObjectWordsInFlight)];
  static_assert(sizeof(BinArraysInFlight) <= sizeof(record));
  const auto copy = [&](size_t bytes) {
    if (end - at < bytes) return false;
    if (options_.reader != nullptr) return options_.reader->Copy(record, at, bytes) == bytes;
    memcpy(record, reinterpret_cast<const void*>(at), bytes);
    return true;
  };
  if (!copy(sizeof(InFlightMark))) return;
  const auto& mark = *reinterpret_cast<const InFlightMark*>(record);
  if (mark.Is(InFlightMark::Kind::kObjectWords)) {
    if (copy(sizeof(ObjectWordsInFlight))) {
      ScanClaimed(*reinterpret_cast<const ObjectWordsInFlight*>(record));
    }
  } else if (mark.Is(InFlightMark::Kind::kBinArrays) && copy(sizeof(BinArraysInFlight))) {
    ScanArrays(
        reinterpret_cast<uintptr_t>(reinterpret_cast<const BinArraysInFlight*>(record)->first()));
  }
}

void Marker::ScanClaimed(const ObjectWordsInFlight& claimed) {
  const size_t n = std::min(claimed.num_words, ObjectWordsInFlight::kMaxWords);
  for (size_t i = 0; i < n; ++i) {
    const uintptr_t first = claimed.words[i].address;
    if (first - heap_lowest_ >= heap_extent_) continue;
    const uint64_t entry = index_.EntryOf(first);
    if (entry == ObjectIndex::kNoEntry || ObjectIndex::IsLarge(entry)) continue;
    const size_t size = kSizeClasses.size(ObjectIndex::ClassOfEntry(entry));
    for (uint64_t mask = claimed.words[i].mask; mask != 0; mask &= mask - 1) {
      const uintptr_t object = first + static_cast<size_t>(std::countr_zero(mask)) * size;
      if (object - heap_lowest_ < heap_extent_) ConsiderInHeap(object);
    }
  }
}

void Marker::ScanArrays(uintptr_t first) {
  uintptr_t at = first;
  for (size_t i = 0; at != 0 && i < kTuning.leak_check.max_chain; ++i) {
    const auto* const array = reinterpret_cast<const BinArray*>(at);
    const uintptr_t slots = reinterpret_cast<uintptr_t>(array->slots());
    const uintptr_t count_at = reinterpret_cast<uintptr_t>(&array->count);
    const size_t count = static_cast<decltype(BinArray::count)>(Load(count_at));
    for (size_t slot = 1; slot <= count; ++slot) Consider(Load(slots + slot * sizeof(BinSlot)));
    at = Load(slots);
  }
}

void Marker::ScanRange(const Range& range) {
  if (range.kind == Kind::kStack) {
    ScanStack(range.start, range.end);
  } else {
    ScanLong(range.start, range.end, range.pages);
  }
  counts_.range_bytes += range.end - range.start;
}

void Marker::ScanObject(Item item) {
  const uintptr_t start = StartOf(item);
  const uint64_t kind = item >> kClassShift;
  size_t bytes;
  if (__builtin_expect(kind != ObjectIndex::kLargeEntry, true)) {
    bytes = kSizeClasses.size(static_cast<SizeClass>(kind));
    if (__builtin_expect(start >= unreadable_end_, true)) {
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

// Objects on their way, whose memory is being fetched.
class Marker::Queue {
 public:
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == kTuning.leak_check.prefetched_objects; }
  void Add(Item item) {
    __builtin_prefetch(reinterpret_cast<const void*>(StartOf(item)));
    items_[(first_ + size_++) % kTuning.leak_check.prefetched_objects] = item;
  }
  Item TakeFirst() {
    const Item item = items_[first_];
    first_ = (first_ + 1) % kTuning.leak_check.prefetched_objects;
    --size_;
    return item;
  }

 private:
  Item items_[kTuning.leak_check.prefetched_objects];
  size_t first_ = 0;
  size_t size_ = 0;
};

void Marker::Drain() {
  for (;;) {
    DrainList();
    if (num_noted_ >= sweep_objects_) {
      SweepNoted();
      continue;
    }
    list_limit_ = options_.list_objects;
    if (num_noted_ == 0) return;
    TakeNoted();
  }
}

void Marker::DrainList() {
  Queue queue;
  for (;;) {
    while (!queue.full() && list_size_ > 0) {
      queue.Add(list_[list_first_]);
      list_first_ = (list_first_ + 1) & (options_.list_objects - 1);
      --list_size_;
    }
    if (queue.empty()) return;
    ScanObject(queue.TakeFirst());
  }
}

void Marker::TakeNoted() {
  while (num_noted_ > 0 && list_size_ < options_.list_objects) {
    uint64_t& bits = noted_[noted_begin_];
    if (bits == 0) {
      ++noted_begin_;
      continue;
    }
    const size_t bit = static_cast<size_t>(std::countr_zero(bits));
    bits &= bits - 1;
    --num_noted_;
    Push(ItemWithNumber(noted_begin_ * kBitsPerWord + bit));
  }
  if (num_noted_ == 0) {
    noted_begin_ = WordsForBits(index_.num_numbers());
    noted_end_ = 0;
  }
}

void Marker::SweepNoted() {
  Queue queue;
  sweeping_ = true;
  size_t w = noted_begin_;
  // What is noted where the sweep has been is met by the next one.
  noted_begin_ = WordsForBits(index_.num_numbers());
  for (; w < noted_end_; ++w) {
    while (noted_[w] != 0) {
      const size_t bit = static_cast<size_t>(std::countr_zero(noted_[w]));
      noted_[w] &= noted_[w] - 1;
      --num_noted_;
      if (queue.full()) ScanObject(queue.TakeFirst());
      queue.Add(ItemWithNumber(w * kBitsPerWord + bit));
    }
  }
  while (!queue.empty()) ScanObject(queue.TakeFirst());
  ConsiderWaiting();
  sweeping_ = false;
}

Marker::Item Marker::ItemWithNumber(size_t number) {
  const ObjectIndex::SpanRecord* record = last_record_;
  if (record == nullptr || number - record->first_number >= record->num_objects) {
    record = last_record_ = &index_.RecordWithNumber(number);
  }
  const uintptr_t start = record->start + (number - record->first_number) * record->object_bytes;
  const uint64_t kind = record->size_class == SizeClass::kNone
                            ? ObjectIndex::kLargeEntry
                            : uint64_t{Index(record->size_class)};
  return ItemOf(start, kind);
}

bool Marker::SortConditional() {
  conditional_reached_ = memory_.AllocateArray<uint64_t>(WordsForBits(conditional_.size()));
  if (conditional_reached_ == nullptr) return false;
  std::sort(conditional_.begin(), conditional_.end(),
            [](const Range& a, const Range& b) { return a.start < b.start; });
  if (conditional_.size() > 0) {
    conditional_lowest_ = conditional_[0].start;
    conditional_extent_ = conditional_[conditional_.size() - 1].end - conditional_lowest_;
  }
  return true;
}

bool Marker::Run() {
  if (conditional_reached_ == nullptr && !SortConditional()) return false;
  for (const uintptr_t word : pointers_) Consider(word);
  pointers_.Clear();
  for (const Range& range : ranges_) {
    ScanRange(range);
    Drain();
  }
  ranges_.Clear();
  Drain();
  for (; reached_scanned_ < reached_.size(); ++reached_scanned_) {
    ScanRange(conditional_[reached_[reached_scanned_]]);
    Drain();
  }
  return !out_of_memory_;
}

size_t Marker::num_unmarked() const {
  size_t n = 0;
  for (size_t w = 0; w < WordsForBits(index_.num_numbers()); ++w) {
    n += static_cast<size_t>(std::popcount(unmarked_[w]));
  }
  return n;
}

bool Marker::FindIndirect() {
  const size_t numbers = index_.num_numbers();
  const size_t words = WordsForBits(numbers);
  direct_ = memory_.AllocateArray<uint64_t>(words);
  uint64_t* const not_found = memory_.AllocateArray<uint64_t>(words);
  if (direct_ == nullptr || not_found == nullptr) return false;
  const Counts counts = counts_;
  const uintptr_t conditional_extent = conditional_extent_;
  conditional_extent_ = 0;
  to_find_ = not_found;
  const auto find_from = [&](size_t number) {
    ClearBit(not_found, number);
    Push(ItemWithNumber(number));
    Drain();
  };
  // First, in one order, objects that none before them leads to: they lead to all. Then, of these
  // in the opposite order, those that none behind them leads to either: they still lead to all, and
  // none of them to another.
  std::copy_n(unmarked_, words, not_found);
  for (size_t number = 0;; ++number) {
    number = FindSetBit(not_found, number, numbers);
    if (number == numbers) break;
    SetBit(direct_, number);
    find_from(number);
  }
  std::copy_n(unmarked_, words, not_found);
  for (size_t w = words; w-- > 0;) {
    for (uint64_t rest = direct_[w]; rest != 0;) {
      const size_t bit = kBitsPerWord - 1 - static_cast<size_t>(std::countl_zero(rest));
      rest ^= uint64_t{1} << bit;
      const size_t number = w * kBitsPerWord + bit;
      if (TestBit(not_found, number)) {
        find_from(number);
      } else {
        ClearBit(direct_, number);
      }
    }
  }
  conditional_extent_ = conditional_extent;
  counts_ = counts;
  to_find_ = unmarked_;
  return true;
}

}  // namespace tcmalloc
