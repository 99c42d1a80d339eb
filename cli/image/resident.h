// SPDX-License-Identifier: BSD-3-Clause
// The resident memory of a process: of each mapping, by the kernel's smaps, and of any range of
// addresses, by its pagemap. The reads neither stop nor change the process.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "image/image.h"

namespace cli {

inline const uint64_t kPageBytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));

// The entry of smaps for a mapping.
struct MappingUse {
  Mapping mapping;
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;     // in a file's mapping: pages that the process wrote to its own
                                    // copy
  uint64_t lazily_freed_bytes = 0;  // MADV_FREE: resident until the system needs memory
  uint64_t hugepage_bytes = 0;      // transparent hugepages
  uint64_t hugetlb_bytes = 0;       // not part of the resident memory
  std::string flags;                // two letters each, a space between them

  bool HasFlag(std::string_view flag) const { return flags.find(flag) != std::string::npos; }
};

// Returns the mappings in the order of addresses.
std::vector<MappingUse> ParseSmaps(std::istream& smaps);
// Throws Failure when smaps is not readable.
std::vector<MappingUse> ReadSmaps(pid_t pid);

// Adjacent hardware pages that are present.
struct PageRun {
  uint64_t first = 0;  // number of the page
  uint64_t pages = 0;
  // True if some may not be resident: pages of zeroes, which the kernel shares among all processes,
  // may be among them.
  bool possible = false;
};

// The present pages among those from `first` on and before `end`, in order.
using PageSource = std::function<std::vector<PageRun>(uint64_t first, uint64_t end)>;
// Scans the pages by the kernel (Linux 6.7), in time proportional to the memory, not to the range.
// Older kernels: reads the pagemap. Throws Failure when that is not permitted.
PageSource OpenPages(pid_t pid);
// Like OpenPages, for the pages that were written or read in, whether they are in memory or swapped
// out.
PageSource OpenTouchedPages(pid_t pid);
// Like OpenTouchedPages, but only pages that the process wrote, not unchanged pages of files.
PageSource OpenWrittenPages(pid_t pid);
// Finds the pages by the pagemap, which has an entry for each page of the address space. Throws
// RangeTooLong for more than kLongestPagemap bytes, whose entries would take too long to read.
PageSource OpenPagemap(pid_t pid);
constexpr uint64_t kLongestPagemap = uint64_t{1} << 40;

class RangeTooLong : public Failure {
 public:
  RangeTooLong() : Failure("mappings of more than 1 TiB are read on Linux 6.7 or later only") {}
};

// Reads entries of a pagemap, one for each hardware page from number `first` on; returns the number
// of entries.
using PagemapEntries = std::function<size_t(uint64_t first, uint64_t* entries, size_t n)>;
// Returns the present pages by such entries.
PageSource PagesOf(PagemapEntries entries);
// Like PagesOf, but with the pages that are swapped out.
PageSource TouchedPagesOf(PagemapEntries entries);
// Like TouchedPagesOf, without pages of files.
PageSource WrittenPagesOf(PagemapEntries entries);
// Whether an access to the page ends the process (MADV_GUARD_INSTALL; the kernel reports it from
// Linux 6.15 on).
bool IsGuardPage(pid_t pid, Address address);

// Counts resident bytes of ranges. The sums agree with smaps: pages of zeroes that the kernel
// shares among all processes are present, but not resident by smaps. The pages of a mapping are
// read once, when a range in it is first counted.
class ResidentPages {
 public:
  ResidentPages(PageSource source, std::vector<MappingUse> mappings);

  // The resident bytes of the range.
  uint64_t Count(Address start, uint64_t bytes) { return CountIn(start, bytes, false); }
  // Like Count. The bytes are subtracted from their mappings; the rest of a mapping has another
  // use.
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
