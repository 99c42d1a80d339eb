// SPDX-License-Identifier: BSD-3-Clause
// Scans stacks: the words that may be pointers, and the objects that functions of the allocator
// have in flight there. While malloc returns a large object, or free gets it, a thread may refer to
// it only by its span: by the address of the span's record, anywhere on the stack, or by the number
// of its first page, in a register or in the innermost frames. Page numbers do not count in other
// frames, where they are more likely to be numbers of the program.
//
// Thread safety: none, as all of MarkerOf. Cost: two passes over a stack; the second one looks up
// each word among the records of large spans.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/raw_memory.h"
#include "base/tuning.h"
#include "formats/marker/load_word.h"
#include "formats/marker/marker.h"

namespace tcmalloc {

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
    const bool in_last_frames = at - first < kTuning.leak_check.allocator_stack_bytes;
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
  for (size_t i = 0; at != 0 && i < kTuning.leak_check.max_chain; ++i) {
    const uintptr_t slots = at + layout.array_bytes;
    const size_t count = static_cast<uint16_t>(LoadWord(memory_, at + layout.array_count_at));
    for (size_t slot = 1; slot <= count; ++slot)
      ConsiderWord(LoadWord(memory_, slots + slot * sizeof(Word)));
    at = LoadWord(memory_, slots);
  }
}

}  // namespace tcmalloc
