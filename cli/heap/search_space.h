// SPDX-License-Identifier: BSD-3-Clause
// The input of a search for pointers: the memory of a mirror, the roots, and the holders of
// pointers that it finds.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address_range.h"
#include "formats/marker/root_map.h"
#include "formats/marker/searched_memory.h"
#include "heap/objects.h"
#include "heap/record.h"
#include "heap/target_objects.h"
#include "heap/told_to_checker.h"
#include "image/image.h"
#include "image/mirror.h"

namespace cli {

// MirrorMemory: reads a mirror for the marker (a Memory of formats/marker/marker.h).
//
// Thread safety: none. Cost: a comparison for memory in the area of the last read, else a binary
// search.
template <typename WordOfTarget>
class MirrorMemory {
 public:
  using Word = WordOfTarget;

  MirrorMemory(const Mirror& mirror, const tcmalloc::InFlightLayout& in_flight, uint64_t* missing)
      : mirror_(mirror), in_flight_(in_flight), missing_(missing) {}

  bool FindDirect(uintptr_t start, uintptr_t end, uintptr_t* by) const {
    if (area_ == nullptr || start < area_->start || start >= area_->end) {
      area_ = mirror_.AreaAt(start);
    }
    if (area_ == nullptr || area_->local == nullptr || end > area_->end) return false;
    *by = reinterpret_cast<uintptr_t>(area_->local) - area_->start;
    return true;
  }
  // Copies across the ends of areas.
  size_t Copy(void* to, uintptr_t start, size_t bytes) const {
    size_t done = 0;
    while (done < bytes) {
      const Mirror::Area* const area = mirror_.AreaAt(start + done);
      if (area == nullptr || area->local == nullptr) break;
      const size_t n = std::min<size_t>(bytes - done, area->end - (start + done));
      memcpy(static_cast<char*>(to) + done, area->local + (start + done - area->start), n);
      done += n;
    }
    return done;
  }
  void Prefetch(uintptr_t address) const {
    if (area_ != nullptr && address - area_->start < area_->end - area_->start) {
      __builtin_prefetch(area_->local + (address - area_->start));
    }
  }
  // All pages that were copied count as written. Any mapping may have a guard page: a core file may
  // lack unreadable memory, and a mirror cannot distinguish guard pages from untouched ones.
  bool TakeFirst(tcmalloc::AddressRange* rest, tcmalloc::WantedPages want,
                 tcmalloc::AddressRange* part) {
    if (want == tcmalloc::WantedPages::kGuard) return true;
    while (rest->start < rest->end) {
      const Mirror::Area* const area = mirror_.FirstAreaAfter(rest->start);
      if (area == nullptr || area->start >= rest->end) return false;
      if (area->missing) {
        *missing_ += std::min<Address>(area->end, rest->end) - std::max(area->start, rest->start);
      }
      const auto run = std::upper_bound(
          area->runs.begin(), area->runs.end(), rest->start,
          [](Address a, const Range& each) { return a < each.address + each.bytes; });
      if (run == area->runs.end()) {
        rest->start = area->end;
        continue;
      }
      if (run->address >= rest->end) return false;
      part->start = std::max<Address>(rest->start, run->address);
      part->end = std::min<Address>(rest->end, run->address + run->bytes);
      rest->start = part->end;
      return true;
    }
    return false;
  }
  const tcmalloc::InFlightLayout& in_flight() const { return in_flight_; }

 private:
  const Mirror& mirror_;
  const tcmalloc::InFlightLayout& in_flight_;
  uint64_t* const missing_;
  mutable const Mirror::Area* area_ = nullptr;
};

// The memory that a search for pointers reads, and the memory that it leaves out.

// Returns the memory that is searched even if other processes share it: the heap, which may be in a
// memory file, and the memory that the program has registered as roots. Adds the guards on which
// they depend. Throws BadImage.
std::vector<std::pair<Address, Address>> MemoryToSearch(const Target& target,
                                                        std::vector<Guard>* guards);

// Returns the memory that the library has mapped for itself, by its list. Throws BadImage.
std::vector<std::pair<Address, Address>> MemoryToLeaveOut(const Target& target);

// SearchSpace is the memory that a search for pointers in a mirror covers. It has the objects in
// use and the roots, by the rules of the library's own leak checker (formats/marker/).
//
// Thread safety: none. Cost: a step for each span and each page of the heap.
template <typename Word>
class SearchSpace {
 public:
  using Memory = MirrorMemory<Word>;

  // The threads are those of the mirror. `main_thread` is the PID of the process. `stopped` is true
  // if the mirror is of one moment. Adds the guards on which the objects depend. Throws BadImage.
  SearchSpace(Mirror& mirror, const Target& target, pid_t main_thread, bool stopped,
              std::vector<Guard>* guards);

  const HeapObjects& heap_objects() const { return heap_objects_; }
  const TargetObjects& objects() const { return objects_; }
  const tcmalloc::RootMap& roots() const { return roots_; }
  const ToldToChecker& told() const { return told_; }
  const std::vector<tcmalloc::StoppedThread>& threads() const { return threads_; }
  const tcmalloc::InFlightLayout& in_flight() const { return in_flight_; }
  Scratch& scratch() { return scratch_; }
  // The reasons why the space is not complete, one per line.
  const std::vector<std::string>& incomplete() const { return incomplete_; }

 private:
  void ReadThreads();
  void ReadOwnMemory();
  void ReadLines();
  // Throws BadImage when memory was mapped after the copy began.
  void CheckMirrored() const;
  void MapRoots();

  Mirror& mirror_;
  const Target& target_;
  const HeapObjects heap_objects_;
  const tcmalloc::InFlightLayout in_flight_;
  Scratch scratch_;
  const TargetObjects objects_;
  const ToldToChecker told_;
  std::vector<Mapping> mappings_;
  std::vector<tcmalloc::MappingLine> lines_;
  std::vector<tcmalloc::AddressRange> own_;
  std::vector<tcmalloc::StoppedThread> threads_;
  tcmalloc::WorldStop world_;
  tcmalloc::RootMap roots_;
  std::vector<std::string> incomplete_;
};

// Holder: the memory, register or record that has a pointer to an object.
struct Holder {
  enum class Kind {
    kObject,        // of the heap
    kMemory,        // private memory that the program has mapped
    kData,          // variables of the program or of a library
    kRegistered,    // memory that the program has registered as a root
    kThreadData,    // a mapping with thread-local storage
    kControlBlock,  // the C library's record of a thread that has ended
    kStack,
    kRegister,
    kCLibraryHeap,  // the C library's own malloc
    kIgnored,       // the program made the leak checker ignore the object
    kRunsOn,        // the object is the stack of a thread
  };
  Kind kind = Kind::kObject;
  // The address and size of an object or of memory.
  Address start = 0;
  uint64_t bytes = 0;
  Address sample = 0;  // the Sample of an object; 0 if it is not sampled
  // The thread and the name of a register; the name of a vector register is empty.
  pid_t thread = 0;
  std::string_view register_name;
};

// The roots from which a search for the referrers of an object begins: variables, stacks, registers
// and other memory that a program reaches without a pointer.

struct SearchRoot {
  Holder::Kind kind = Holder::Kind::kData;
  // For kIgnored and kRunsOn, both are the single pointer of the root.
  Address start = 0;
  Address end = 0;
  const ThreadRegisters* thread = nullptr;  // of kRegister
};

// Returns the roots in the order in which a search uses them: of two chains of the same length, it
// finds the one from the earlier root. No memory is listed twice. The threads outlive the list.
std::vector<SearchRoot> ListRoots(const tcmalloc::RootMap& map, const ToldToChecker& told,
                                  const std::vector<ThreadRegisters>& threads);

}  // namespace cli
