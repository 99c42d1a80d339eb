// SPDX-License-Identifier: BSD-3-Clause
// The search in this process: its marker (formats/marker/marker.h), the memory that this reads and
// which pages of it are backed, and the roots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_range.h"
#include "base/compiler.h"
#include "central/object_words.h"
#include "formats/marker/marker.h"
#include "formats/marker/root_map.h"
#include "formats/marker/searched_memory.h"
#include "instruments/annotations/program_annotations.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/heap_objects.h"
#include "instruments/world_stop/memory_reader.h"
#include "instruments/world_stop/world_stop.h"
#include "os/memory/mapped_array.h"
#include "os/memory_map.h"
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

// Marker is the marker of formats/marker/marker.h for the objects of this process. ProgramMemory
// reads their memory by plain loads, or by a MemoryReader if the memory may be unreadable.
//
// The MemoryReader takes some 20 ns more per object on x86. For thread safety and other cost see
// formats/marker/marker.h.

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

// Roots: where a search for live objects begins, in a process whose other threads are stopped.
// formats/marker/root_map.h says what counts, and why.
//
// Role. Reads the process's mappings, leaves out the allocator's own memory, and finds the stacks
// of ended threads. All memory that it and the search use must come from the heap's source of its
// own records (`virtual_memory`), so that it is left out as well.
//
// Use. Construct it anywhere; call Gather in the function that runs while the world is stopped, and
// search there: the ranges are valid until threads run, and as long as no memory is unmapped except
// memory that is left out. Cost: some microseconds for each mapping.

struct Heap;

class Roots {
 public:
  explicit Roots(Heap& heap);

  // Reads memory by `reader`, or by plain loads if it is null. kImpossible: /proc/self/maps cannot
  // be read, or there was no memory to list the allocator's own. Requires: the locks of the heap
  // and of `registered` are held as for fork, or no other thread uses them.
  LeakOutcome Gather(const WorldStop& world, RegisteredRoots& registered,
                     const MemoryReader* reader = nullptr);

  // False when the allocator's own memory is at addresses that other memory had when Gather read
  // the mappings. Then the search may have read words that it wrote itself. That can happen only if
  // the program's threads run and unmap memory. Cost: the list of the allocator's memory, and a
  // comparison with every mapping.
  bool StillValid();

  // The ranges in which every word is searched from the start. Registers are searched in addition:
  // see StoppedThread. The ranges may overlap, and their ends need not be aligned.
  const MappedArray<RootRange>& always() const { return always_; }

  // Ranges that are searched as a whole, as far as they are backed, once a pointer into them is
  // found. They are sorted and do not overlap.
  const ScratchArray<RootRange>& conditional() const { return map_.conditional; }

  // Stack pointers of threads whose stack is an object of the heap. Such an object is reachable,
  // and all of it is searched, wherever in it the stack pointer points.
  const ScratchArray<uintptr_t>& heap_stacks() const { return map_.heap_stacks; }

  // Parts of the heap's memory that the program has protected, so that they cannot be read. They
  // are sorted and do not overlap. Mostly they are guard pages of stacks that are objects.
  const MappedArray<AddressRange>& unreadable() const { return unreadable_; }

 private:
  bool ReadMappings(LeakOutcome* outcome);
  bool ParseMappings();
  bool KeepTouched(ProgramMemory& memory);
  bool CollectUnreadable();
  // Calls f(line, part) for each part of a mapping that is in the ranges `own`, until f returns
  // false. Returns what f returned last, or true.
  template <typename F>
  bool ForEachOwnPart(const MappedArray<AddressRange>& own, F f) const;

  Heap& heap_;
  MappedArray<char> text_;
  MappedArray<MappingLine> lines_;
  MappedArray<AddressRange> own_;
  MappedArray<AddressRange> own_later_;
  MappedArray<AddressRange> unreadable_;
  MappedArray<AddressRange> registered_;
  CheckMemory scratch_;
  ScratchArray<ControlBlock> control_blocks_;
  RootMap map_;
  MappedArray<RootRange> always_;
};

// Sets `own` to the allocator's own memory, objects and records: sorted, not overlapping. Also for
// tests.
LeakOutcome CollectOwnMemory(Heap& heap, MappedArray<AddressRange>* own);

}  // namespace tcmalloc
