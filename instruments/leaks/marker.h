// SPDX-License-Identifier: BSD-3-Clause
// The marker of formats/marker/marker.h for the objects and the memory of this process, and which
// pages of that memory are backed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "base/compiler.h"
#include "central/object_words.h"
#include "formats/marker/marker.h"
#include "formats/marker/searched_memory.h"
#include "instruments/leaks/object_index.h"
#include "instruments/world_stop/memory_reader.h"
#include "thread_cache/bin_table.h"

namespace tcmalloc {

// BackedPages: finds the pages of this process's memory that are backed and that the process may
// have written. An untouched page holds zeroes, or the contents of its file. Reading it would make
// the OS back it, or end the process where the file was truncated or the page is a guard page.
//
// Reads /proc/self/pagemap. Never allocates. Thread safety: as an int. Cost: a system call for
// 2 MiB of pages of 4 KiB, a few nanoseconds per page; from Linux 6.7 on, one system call for any
// number of unbacked pages. The kernel skips pages without page tables.
class BackedPages {
 public:
  explicit BackedPages(size_t hardware_page_size) : page_bytes_(hardware_page_size) {}
  BackedPages(const BackedPages&) = delete;
  BackedPages& operator=(const BackedPages&) = delete;
  ~BackedPages() { Close(); }

  // False if the OS does not report backed pages; then all pages count as backed.
  bool Open();
  void Close();

  using Want = WantedPages;

  // Sets `part` to the first wanted part of `range`, as long as possible, and `range` to the rest
  // after it; false when there is none. Parts end at ends of pages or of `range`. If the OS does
  // not report them, all pages count as backed and written, and none as a guard page.
  bool TakeFirst(AddressRange* range, Want want, AddressRange* part);

 private:
  static constexpr size_t kEntries = 512;

  // The entry of the page at `address`; reads ahead.
  uint64_t EntryAt(uintptr_t page);
  // The first page of [page, end) that may be backed, or with kGuard may be a guard page; or `end`.
  uintptr_t SkipOthers(uintptr_t page, uintptr_t end, Want want);

  const size_t page_bytes_;
  int fd_ = -1;
  // False once the kernel has turned out to be unable to find backed pages, or guard pages.
  bool may_scan_ = true;
  bool may_scan_guards_ = true;
  // Entries of the pages [first_page_, first_page_ + num_entries_).
  uintptr_t first_page_ = 0;
  size_t num_entries_ = 0;
  uint64_t entries_[kEntries];
};

// Marker: the marker of formats/marker/marker.h for the objects and the memory of this process,
// which ProgramMemory reads: by plain loads, or by a MemoryReader if the memory may be unreadable.
//
// On x86, where the reader is guarded, it takes some 20 ns more per object. Thread safety and cost
// are as described there.

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
