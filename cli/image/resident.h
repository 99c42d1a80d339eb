// SPDX-License-Identifier: BSD-3-Clause
// How much of a process's memory is resident: each mapping by the kernel's smaps, and any range of
// addresses by its pagemap. Reading them neither stops nor changes the process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <istream>
#include <vector>

#include "image/image.h"

namespace cli {

// What smaps says about a mapping.
struct MappingUse {
  Mapping mapping;
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;     // of a file's mapping: what the process wrote to its own copy
  uint64_t lazily_freed_bytes = 0;  // MADV_FREE: resident until the system needs memory
  uint64_t hugepage_bytes = 0;      // transparent hugepages
  uint64_t hugetlb_bytes = 0;       // not part of the resident memory
};

// In the order of addresses.
std::vector<MappingUse> ParseSmaps(std::istream& smaps);
// Throws Failure when it is not readable.
std::vector<MappingUse> ReadSmaps(pid_t pid);

// Reads entries of a pagemap, one for each hardware page from number `first` on; returns how many.
using PagemapSource = std::function<size_t(uint64_t first, uint64_t* entries, size_t n)>;
// Throws Failure when it is not readable.
PagemapSource OpenPagemap(pid_t pid);

// Counts resident bytes of ranges. The sums agree with smaps: pages of zeroes that the kernel
// shares among all processes are present, but not resident by smaps.
class ResidentPages {
 public:
  ResidentPages(PagemapSource source, std::vector<MappingUse> mappings);

  // The resident bytes of the range.
  uint64_t Count(Address start, uint64_t bytes) { return CountIn(start, bytes, false); }
  // As Count. The bytes are taken from their mappings: what is left of these is of another use.
  uint64_t Take(Address start, uint64_t bytes) { return CountIn(start, bytes, true); }
  // Takes `bytes` of mapping `i`, wherever they are.
  void TakeFrom(size_t i, uint64_t bytes) { states_[i].taken_bytes += bytes; }
  // Undoes all takes.
  void PutBack();

  const std::vector<MappingUse>& mappings() const { return mappings_; }
  // The resident bytes of mapping `i` that were not taken.
  uint64_t Left(size_t i) const;

 private:
  static constexpr size_t kWindow = size_t{1} << 16;

  struct Pages {
    uint64_t certain = 0;   // pages of files, and anonymous ones that the process has alone
    uint64_t possible = 0;  // shared with another process, or a page of zeroes
  };
  struct State {
    bool known = false;
    double possible_weight = 1;  // the share of the possible pages that is resident
    uint64_t taken_bytes = 0;
  };

  uint64_t CountIn(Address start, uint64_t bytes, bool take);
  Pages PagesIn(Address start, Address end);
  uint64_t Entry(uint64_t page);

  PagemapSource source_;
  std::vector<MappingUse> mappings_;
  std::vector<State> states_;
  std::vector<uint64_t> window_;
  uint64_t window_first_ = 0;
  size_t window_pages_ = 0;
  const uint64_t page_bytes_;
};

}  // namespace cli
