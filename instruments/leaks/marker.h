// SPDX-License-Identifier: BSD-3-Clause
// Marker is the marker of formats/marker/marker.h for the objects of this process. ProgramMemory
// reads their memory by plain loads, or by a MemoryReader if the memory may be unreadable.
//
// The MemoryReader takes some 20 ns more per object on x86. For thread safety and other cost see
// formats/marker/marker.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "base/compiler.h"
#include "central/object_words.h"
#include "formats/marker/marker.h"
#include "formats/marker/searched_memory.h"
#include "instruments/leaks/backed_pages.h"
#include "instruments/leaks/check_memory.h"
#include "instruments/leaks/object_index.h"
#include "instruments/world_stop/memory_reader.h"
#include "thread_cache/bin_table.h"

namespace tcmalloc {

inline constexpr InFlightLayout kInFlightLayout = {
    .tag = InFlightMark::TagAt(0),
    .object_words_kind = static_cast<uintptr_t>(InFlightMark::Kind::kObjectWords),
    .bin_arrays_kind = static_cast<uintptr_t>(InFlightMark::Kind::kBinArrays),
    .object_words_bytes = sizeof(ObjectWordsInFlight),
    .num_words_at = offsetof(ObjectWordsInFlight, num_words),
    .words_at = offsetof(ObjectWordsInFlight, words),
    .max_words = ObjectWordsInFlight::kMaxWords,
    .word_bytes = sizeof(ObjectWord),
    .word_mask_at = offsetof(ObjectWord, mask),
    .bin_arrays_bytes = sizeof(BinArraysInFlight),
    .chain_at = offsetof(BinArraysInFlight, chain),
    .array_bytes = sizeof(BinArray),
    .array_count_at = offsetof(BinArray, count),
};
static_assert(offsetof(ObjectWord, address) == 0 && sizeof(BinSlot) == sizeof(uintptr_t) &&
              sizeof(BinArray::count) == 2);

class ProgramMemory {
 public:
  using Word = uintptr_t;

  // `reader`: null for plain loads.
  ProgramMemory(const MemoryReader* reader, size_t hardware_page_size)
      : reader_(reader), backed_(hardware_page_size) {}

  // Called before TakeFirst. If the OS does not report backed pages, all pages count as backed.
  void Open() { static_cast<void>(backed_.Open()); }

  TC_FAST_PATH bool FindDirect(uintptr_t, uintptr_t, uintptr_t* by) const {
    *by = 0;
    return reader_ == nullptr;
  }
  size_t Copy(void* to, uintptr_t start, size_t bytes) const {
    return reader_->Copy(to, start, bytes);
  }
  TC_FAST_PATH void Prefetch(uintptr_t address) const {
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  }
  bool TakeFirst(AddressRange* rest, WantedPages want, AddressRange* part) {
    return backed_.TakeFirst(rest, want, part);
  }
  static constexpr const InFlightLayout& in_flight() { return kInFlightLayout; }

 private:
  const MemoryReader* const reader_;
  BackedPages backed_;
};

extern template class MarkerOf<HeapGeometry, ProgramMemory>;

class Marker : public MarkerOf<HeapGeometry, ProgramMemory> {
 public:
  using Base = MarkerOf<HeapGeometry, ProgramMemory>;

  // `reader` reads the program's memory; null for plain loads.
  Marker(const ObjectIndex& index, CheckMemory& memory, const Options& options,
         const MemoryReader* reader = nullptr)
      : Base(index, memory, options, reader, memory.hardware_page_size()) {}

  // Called before all other functions. False when the OS has no memory.
  [[nodiscard]] bool Prepare() {
    memory().Open();
    return Base::Prepare();
  }
};

}  // namespace tcmalloc
