// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/process_search.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "formats/marker/control_blocks.h"
#include "formats/marker/marker.h"
#include "formats/marker/marker_scan.h"
#include "formats/marker/pagemap.h"
#include "formats/marker/root_map.h"
#include "instruments/annotations/program_annotations.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/memory_map.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

constexpr unsigned long kPagemapScan = _IOWR('f', 16, pagemap::Scan);

}  // namespace

bool BackedPages::Open() {
  const ErrnoKeeper keeper;
  Close();
  fd_ = OpenForReading("/proc/self/pagemap");
  return fd_ >= 0;
}

void BackedPages::Close() {
  if (fd_ < 0) return;
  const ErrnoKeeper keeper;
  tcmalloc::Close(fd_);
  fd_ = -1;
  num_entries_ = 0;
}

uint64_t BackedPages::EntryAt(uintptr_t page) {
  if (page - first_page_ >= num_entries_) {
    const ErrnoKeeper keeper;
    first_page_ = page;
    num_entries_ = 0;
    // Pages without information from the OS count as written.
    ssize_t bytes;
    do {
      bytes = ReadAt(fd_, entries_, sizeof(entries_), uint64_t{page} * sizeof(uint64_t));
    } while (bytes < 0 && errno == EINTR);
    if (bytes < ssize_t{sizeof(uint64_t)}) return pagemap::kPresent;
    num_entries_ = static_cast<size_t>(bytes) / sizeof(uint64_t);
  }
  return entries_[page - first_page_];
}

uintptr_t BackedPages::SkipOthers(uintptr_t page, uintptr_t end, Want want) {
  bool& may_scan = want == Want::kGuard ? may_scan_guards_ : may_scan_;
  if (!may_scan) return page;
  const ErrnoKeeper keeper;
  pagemap::Region region = {};
  pagemap::Scan arguments;
  arguments.start = uint64_t{page} * page_bytes_;
  arguments.end = uint64_t{end} * page_bytes_;
  arguments.num_regions = 1;
  arguments.max_pages = 1;
  arguments.regions = reinterpret_cast<uintptr_t>(&region);
  arguments.category_anyof_mask = arguments.return_mask =
      want == Want::kGuard ? pagemap::kScanGuard : pagemap::kScanPresent | pagemap::kScanSwapped;
  long n;
  do {
    n = syscall(SYS_ioctl, fd_, kPagemapScan, &arguments);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    // The kernel is older, a sandbox forbids the call, or the kernel does not support these
    // addresses.
    may_scan = false;
    return page;
  }
  if (n == 0) return end;
  return std::clamp<uintptr_t>(static_cast<uintptr_t>(region.start / page_bytes_), page, end);
}

bool BackedPages::TakeFirst(AddressRange* range, Want want, AddressRange* part) {
  if (range->start >= range->end) return false;
  if (fd_ < 0) {
    if (want == Want::kGuard) return false;
    *part = *range;
    range->start = range->end;
    return true;
  }
  const auto is_wanted = [want](uint64_t entry) {
    if (want == Want::kGuard || (entry & pagemap::kGuard) != 0) {
      return want == Want::kGuard && (entry & pagemap::kGuard) != 0;
    }
    if ((entry & (pagemap::kPresent | pagemap::kSwapped)) == 0) return false;
    return want == Want::kAny || (entry & pagemap::kOfFileOrShared) == 0;
  };
  const uintptr_t end_page = (range->end - 1) / page_bytes_ + 1;
  uintptr_t page = range->start / page_bytes_;
  const uintptr_t not_before = page + kEntries;
  while (page < end_page && !is_wanted(EntryAt(page))) {
    ++page;
    if (page >= not_before && page - first_page_ >= num_entries_) {
      page = SkipOthers(page, end_page, want);
    }
  }
  if (page == end_page) {
    range->start = range->end;
    return false;
  }
  const uintptr_t first = page;
  while (page < end_page && is_wanted(EntryAt(page))) ++page;
  part->start = std::max(range->start, first * page_bytes_);
  part->end = page == end_page ? range->end : page * page_bytes_;
  range->start = part->end;
  return true;
}

template class MarkerOf<HeapGeometry, ProgramMemory>;

namespace {

// This suffices for most processes: some 600 mappings.
constexpr size_t kFirstTextBytes = size_t{64} << 10;

// Sorts the ranges, and joins those that overlap or touch.
void Join(MappedArray<AddressRange>* ranges) {
  std::sort(ranges->begin(), ranges->end(),
            [](const AddressRange& a, const AddressRange& b) { return a.start < b.start; });
  size_t kept = 0;
  for (const AddressRange& range : *ranges) {
    if (kept > 0 && range.start <= (*ranges)[kept - 1].end) {
      (*ranges)[kept - 1].end = std::max((*ranges)[kept - 1].end, range.end);
    } else {
      (*ranges)[kept++] = range;
    }
  }
  ranges->Clear();
  ranges->Extend(kept);
}

template <typename T>
AddressRange RangeOf(const T& object) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(&object);
  return {start, start + sizeof(T)};
}

}  // namespace

LeakOutcome CollectOwnMemory(Heap& heap, MappedArray<AddressRange>* own) {
  MappedRanges& mapped = heap.virtual_memory.mapped();
  if (!mapped.is_complete()) return LeakOutcome::kImpossible;
  // The allocator's memory in static storage: half a MiB of page map, without pointers to objects;
  // lists of mappings, whose starts are also the addresses of objects; lists of free objects;
  // ranges that the program has unregistered.
  const AddressRange kStatic[] = {RangeOf(global_page_map), RangeOf(heap.virtual_memory),
                                  RangeOf(heap.memory),     RangeOf(heap.arena),
                                  RangeOf(heap.central),    RangeOf(heap.holes),
                                  RangeOf(heap.registry),   RangeOf(ProcessRegisteredRoots())};
  size_t listed = 0;
  heap.memory.ForEachListedRange([&listed](uintptr_t, uintptr_t) { ++listed; });
  // The array grows before the list is read, since its own mapping may be one more range of the
  // list.
  constexpr size_t kMore = 8;
  own->Clear();
  const size_t others = listed + std::size(kStatic);
  if (!own->Reserve(mapped.size() + others + kMore)) return LeakOutcome::kNoMemory;
  const size_t n = mapped.CopyTo(own->data(), own->capacity());
  if (n + others > own->capacity()) return LeakOutcome::kNoMemory;
  own->Extend(n);
  bool has_room = true;
  const auto add = [&](const AddressRange& range) { has_room = has_room && own->Push(range); };
  heap.memory.ForEachListedRange([&](uintptr_t start, uintptr_t end) { add({start, end}); });
  for (const AddressRange& range : kStatic) add(range);
  if (!has_room) return LeakOutcome::kNoMemory;
  Join(own);
  return LeakOutcome::kDone;
}

Roots::Roots(Heap& heap)
    : heap_(heap),
      text_(heap.virtual_memory),
      lines_(heap.virtual_memory),
      own_(heap.virtual_memory),
      own_later_(heap.virtual_memory),
      unreadable_(heap.virtual_memory),
      registered_(heap.virtual_memory),
      scratch_(heap.virtual_memory),
      always_(heap.virtual_memory) {}

// False when the buffer was too small and has grown, with `*outcome` unchanged, or on an error.
bool Roots::ReadMappings(LeakOutcome* outcome) {
  InputFile file("/proc/self/maps");
  text_.Clear();
  while (file.is_open()) {
    if (text_.size() == text_.capacity()) {
      const bool has_room = text_.Reserve(std::max(2 * text_.capacity(), kFirstTextBytes));
      if (!has_room) *outcome = LeakOutcome::kNoMemory;
      return false;
    }
    const size_t n = file.Read(text_.end(), text_.capacity() - text_.size());
    if (n == 0) break;
    text_.Extend(n);
  }
  if (text_.size() == 0) *outcome = LeakOutcome::kImpossible;
  return text_.size() > 0;
}

bool Roots::ParseMappings() {
  lines_.Clear();
  std::string_view text(text_.data(), text_.size());
  while (!text.empty()) {
    MappingLine line;
    if (ParseMappingLine(TakeField(&text, '\n'), &line) && !lines_.Push(line)) return false;
  }
  return true;
}

bool Roots::KeepTouched(ProgramMemory& memory) {
  always_.Clear();
  for (const RootRange& range : map_.always) {
    if (!ForEachTouchedPart(memory, range,
                            [this](const RootRange& part) { return always_.Push(part); })) {
      return false;
    }
  }
  return true;
}

bool Roots::CollectUnreadable() {
  unreadable_.Clear();
  return ForEachOwnPart(own_, [this](const MappingLine& line, const AddressRange& part) {
    return line.readable || unreadable_.Push(part);
  });
}

bool Roots::StillValid() {
  if (CollectOwnMemory(heap_, &own_later_) != LeakOutcome::kDone) return false;
  const AddressRange* then = own_.begin();
  return ForEachOwnPart(own_later_, [&](const MappingLine&, const AddressRange& part) {
    while (then != own_.end() && then->end <= part.start) ++then;
    // The allocator's ranges do not touch, so a part that belonged to the allocator is inside one
    // of them.
    return then != own_.end() && then->start <= part.start && part.end <= then->end;
  });
}

template <typename F>
bool Roots::ForEachOwnPart(const MappedArray<AddressRange>& own, F f) const {
  const AddressRange* first = own.begin();
  for (const MappingLine& line : lines_) {
    while (first != own.end() && first->end <= line.start) ++first;
    for (const AddressRange* range = first; range != own.end() && range->start < line.end;
         ++range) {
      const AddressRange part = {std::max(range->start, line.start),
                                 std::min(range->end, line.end)};
      if (!f(line, part)) return false;
    }
  }
  return true;
}

LeakOutcome Roots::Gather(const WorldStop& world, RegisteredRoots& registered,
                          const MemoryReader* reader) {
  const ErrnoKeeper keeper;
  control_blocks_ = {};
  map_ = {};
  scratch_.FreeAll();
  // Making room unmaps memory. Memory that is unmapped after the mappings were read must be among
  // the allocator's ranges, so if one of the two reads made room, both are repeated.
  LeakOutcome outcome = LeakOutcome::kDone;
  for (bool again = true; again;) {
    outcome = CollectOwnMemory(heap_, &own_);
    if (outcome != LeakOutcome::kDone) return outcome;
    const size_t capacity = own_.capacity();
    again = !ReadMappings(&outcome);
    if (outcome != LeakOutcome::kDone) return outcome;
    if (again) continue;
    outcome = CollectOwnMemory(heap_, &own_);
    if (outcome != LeakOutcome::kDone) return outcome;
    again = own_.capacity() != capacity;
  }
  registered_.Clear();
  if (!ParseMappings() || !registered_.Reserve(registered.size())) return LeakOutcome::kNoMemory;
  registered_.Extend(registered.CopyTo(registered_.data(), registered_.capacity()));
  MemoryLayout layout = {.lines = lines_.data(),
                         .num_lines = lines_.size(),
                         .world = world,
                         .own = own_.data(),
                         .num_own = own_.size(),
                         .registered = registered_.data(),
                         .num_registered = registered_.size()};
  ProgramMemory memory(reader, heap_.virtual_memory.hardware_page_size());
  memory.Open();
  if (!FindControlBlocks(layout, memory, scratch_, &control_blocks_)) return LeakOutcome::kNoMemory;
  layout.control_blocks = control_blocks_.data();
  layout.num_control_blocks = control_blocks_.size();
  if (!MapRoots(layout, scratch_, &map_) || !KeepTouched(memory) || !CollectUnreadable()) {
    return LeakOutcome::kNoMemory;
  }
  return LeakOutcome::kDone;
}

}  // namespace tcmalloc
