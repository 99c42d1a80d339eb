// SPDX-License-Identifier: BSD-3-Clause
// SearchSpace is the memory that a search for pointers in a mirror covers. It has the objects in
// use and the roots, by the rules of the library's own leak checker (formats/marker/).
//
// Thread safety: none. Cost: a step for each span and each page of the heap.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "formats/marker/root_map.h"
#include "formats/marker/searched_memory.h"
#include "heap/leak_scratch.h"
#include "heap/mirror_memory.h"
#include "heap/objects.h"
#include "heap/target_objects.h"
#include "heap/told_to_checker.h"
#include "image/mirror.h"

namespace cli {

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

}  // namespace cli
