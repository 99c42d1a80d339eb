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

// Hardware pages that are present, one after the other.
struct PageRun {
  uint64_t first = 0;  // number of the page
  uint64_t pages = 0;
  // Not all need be resident: pages of zeroes, which the kernel shares among all processes, may be
  // among them.
  bool possible = false;
};

// The present pages among those from `first` on and before `end`, in order.
using PageSource = std::function<std::vector<PageRun>(uint64_t first, uint64_t end)>;
// Asks the kernel for the pages (Linux 6.7), which takes as long as there is memory, not as long as
// the range. Else reads the pagemap. Throws Failure when that is not permitted.
PageSource OpenPages(pid_t pid);
// The pages by the pagemap, which has an entry for each page of the address space. A range of more
// than kLongestPagemap is not read: none of its pages is found.
PageSource OpenPagemap(pid_t pid);
constexpr uint64_t kLongestPagemap = uint64_t{1} << 40;

// Reads entries of a pagemap, one for each hardware page from number `first` on; returns how many.
using PagemapEntries = std::function<size_t(uint64_t first, uint64_t* entries, size_t n)>;
// The present pages by such entries.
PageSource PagesOf(PagemapEntries entries);

// Counts resident bytes of ranges. The sums agree with smaps: pages of zeroes that the kernel
// shares among all processes are present, but not resident by smaps. The pages of a mapping are
// read once, when a range in it is counted first.
class ResidentPages {
 public:
  ResidentPages(PageSource source, std::vector<MappingUse> mappings);

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
  struct State {
    bool known = false;
    std::vector<PageRun> runs;
    double possible_weight = 1;  // the share of the possible pages that is resident
    uint64_t taken_bytes = 0;
  };

  uint64_t CountIn(Address start, uint64_t bytes, bool take);
  void Learn(const MappingUse& mapping, State* state);

  PageSource source_;
  std::vector<MappingUse> mappings_;
  std::vector<State> states_;
  const uint64_t page_bytes_;
};

}  // namespace cli
