// SPDX-License-Identifier: BSD-3-Clause
// Scanning stacks: besides the words that may be pointers, objects that functions of the allocator
// have in flight there, and addresses of the records of large spans.
//
// Thread safety: none, as all of Marker. Cost: two passes over a stack; the second one looks up
// each word among the records of large spans.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/tuning.h"
#include "cache/bin_array.h"
#include "central/object_words.h"
#include "os/raw_memory.h"
#include "tools/leak/marker.h"

namespace tcmalloc {

uintptr_t Marker::Load(uintptr_t address) const {
  return options_.reader == nullptr ? LoadRaw<uintptr_t>(address) : options_.reader->Word(address);
}

void Marker::ScanStack(uintptr_t start, uintptr_t end) {
  ScanWords(start, end);
  const uintptr_t first = (start + sizeof(uintptr_t) - 1) & ~(sizeof(uintptr_t) - 1);
  for (uintptr_t at = first; at + sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
    const uintptr_t word = Load(at);
    if (word == InFlightMark::TagAt(at)) {
      ScanMark(at, end);
    } else if (const ObjectIndex::SpanRecord* const large = index_.LargeBySpan(word)) {
      ConsiderWord(large->start);
    }
  }
}

void Marker::ScanMark(uintptr_t at, uintptr_t end) {
  // Work on a copy: where threads could not be stopped, the function may return meanwhile.
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
    if (!heap_.Contains(first)) continue;
    const uint64_t entry = index_.EntryOf(first);
    if (entry == ObjectIndex::kNoEntry || ObjectIndex::IsLarge(entry)) continue;
    const size_t size = kSizeClasses.size(ObjectIndex::ClassOfEntry(entry));
    for (uint64_t mask = claimed.words[i].mask; mask != 0; mask &= mask - 1) {
      const uintptr_t object = first + static_cast<size_t>(std::countr_zero(mask)) * size;
      if (heap_.Contains(object)) ConsiderWordInHeap(object);
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
    for (size_t slot = 1; slot <= count; ++slot) ConsiderWord(Load(slots + slot * sizeof(BinSlot)));
    at = Load(slots);
  }
}

}  // namespace tcmalloc
