// SPDX-License-Identifier: BSD-3-Clause
#include "image/resident.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "formats/marker/pagemap.h"
#include "image/process.h"

namespace cli {
namespace {

namespace pagemap = tcmalloc::pagemap;

constexpr unsigned long kPagemapScan = _IOWR('f', 16, pagemap::Scan);

using File = std::shared_ptr<const int>;

File OpenPagemapFile(pid_t pid) {
  const int file =
      open(fmt::format("/proc/{}/pagemap", LivingThread(pid)).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw Failure(ExplainDenial(pid, errno));
  return {new int(file), [](const int* descriptor) {
            close(*descriptor);
            delete descriptor;
          }};
}

void Append(uint64_t first, uint64_t pages, bool possible, std::vector<PageRun>* runs) {
  if (!runs->empty() && runs->back().first + runs->back().pages == first &&
      runs->back().possible == possible) {
    runs->back().pages += pages;
  } else {
    runs->push_back({first, pages, possible});
  }
}

// Selects pages with one of the categories in `wanted` and none of those in `unwanted`.
struct Categories {
  uint64_t wanted;
  uint64_t unwanted;
};

// Scans the pages; false when the kernel does not support that.
bool Scan(int file, uint64_t first, uint64_t end, Categories categories,
          std::vector<PageRun>* runs) {
  std::vector<pagemap::Region> regions(4096);
  pagemap::Scan arguments{.start = first * kPageBytes,
                          .end = end * kPageBytes,
                          .regions = reinterpret_cast<uint64_t>(regions.data()),
                          .num_regions = regions.size(),
                          .category_inverted = categories.unwanted,
                          .category_mask = categories.unwanted,
                          .category_anyof_mask = categories.wanted,
                          .return_mask = pagemap::kScanPresent | pagemap::kScanHuge};
  for (;;) {
    const int n = ioctl(file, kPagemapScan, &arguments);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    for (const pagemap::Region& region : std::span(regions).first(static_cast<size_t>(n))) {
      // The kernel does not report whether a hugepage is the shared one of zeroes.
      Append(region.start / kPageBytes, (region.end - region.start) / kPageBytes,
             (region.categories & pagemap::kScanHuge) != 0, runs);
    }
    if (static_cast<size_t>(n) < regions.size() || regions.back().end >= arguments.end) return true;
    // There was no room for more regions. The scan cannot continue from the kernel's walk_end,
    // which may precede regions that the kernel has found.
    arguments.start = regions.back().end;
  }
}

}  // namespace

std::vector<MappingUse> ParseSmaps(std::istream& smaps) {
  std::vector<MappingUse> uses;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (!key.ends_with(':')) {
      if (auto mapping = ParseMapping(line)) uses.push_back({.mapping = std::move(*mapping)});
      continue;
    }
    if (uses.empty()) continue;
    MappingUse& use = uses.back();
    if (key == "VmFlags:") std::getline(words >> std::ws, use.flags);
    uint64_t kib = 0;
    if (!(words >> kib)) continue;
    if (key == "Rss:") {
      use.resident_bytes = kib << 10;
    } else if (key == "Anonymous:") {
      use.anonymous_bytes = kib << 10;
    } else if (key == "LazyFree:") {
      use.lazily_freed_bytes = kib << 10;
    } else if (key == "AnonHugePages:") {
      use.hugepage_bytes = kib << 10;
    } else if (key == "Private_Hugetlb:" || key == "Shared_Hugetlb:") {
      use.hugetlb_bytes += kib << 10;
    }
  }
  return uses;
}

std::vector<MappingUse> ReadSmaps(pid_t pid) {
  std::ifstream smaps(fmt::format("/proc/{}/smaps", LivingThread(pid)));
  if (!smaps) throw Failure(ExplainDenial(pid, errno));
  return ParseSmaps(smaps);
}

namespace {

PageSource PagesWith(uint64_t bits, uint64_t without, PagemapEntries entries) {
  return [bits, without, entries](uint64_t first, uint64_t end) {
    constexpr uint64_t kWindow = uint64_t{1} << 16;
    std::vector<PageRun> runs;
    if ((end - first) * kPageBytes > kLongestPagemap) throw RangeTooLong();
    std::vector<uint64_t> window(std::min(kWindow, end - first));
    while (first < end) {
      const size_t n = entries(first, window.data(), std::min<size_t>(window.size(), end - first));
      if (n == 0) break;
      for (size_t i = 0; i < n; ++i) {
        const uint64_t entry = window[i];
        if ((entry & bits) == 0 || (entry & without) != 0) continue;
        Append(first + i, 1,
               (entry & (pagemap::kOfFileOrShared | pagemap::kExclusive | pagemap::kSwapped)) == 0,
               &runs);
      }
      first += n;
    }
    return runs;
  };
}

PagemapEntries EntriesOf(pid_t pid) {
  return [file = OpenPagemapFile(pid)](uint64_t first, uint64_t* entries, size_t n) {
    const ssize_t bytes =
        pread(*file, entries, n * sizeof(uint64_t), static_cast<off_t>(first * sizeof(uint64_t)));
    return bytes < 0 ? size_t{0} : static_cast<size_t>(bytes) / sizeof(uint64_t);
  };
}

PageSource ScanOrRead(pid_t pid, Categories categories, PageSource pagemap) {
  return [file = OpenPagemapFile(pid), categories, pagemap](uint64_t first, uint64_t end) {
    std::vector<PageRun> runs;
    return Scan(*file, first, end, categories, &runs) ? runs : pagemap(first, end);
  };
}

}  // namespace

PageSource PagesOf(PagemapEntries entries) {
  return PagesWith(pagemap::kPresent, 0, std::move(entries));
}

PageSource TouchedPagesOf(PagemapEntries entries) {
  return PagesWith(pagemap::kPresent | pagemap::kSwapped, pagemap::kGuard, std::move(entries));
}

PageSource WrittenPagesOf(PagemapEntries entries) {
  return PagesWith(pagemap::kPresent | pagemap::kSwapped,
                   pagemap::kGuard | pagemap::kOfFileOrShared, std::move(entries));
}

PageSource OpenPagemap(pid_t pid) { return PagesOf(EntriesOf(pid)); }

PageSource OpenPages(pid_t pid) {
  return ScanOrRead(pid, {pagemap::kScanPresent, pagemap::kScanZeroes}, OpenPagemap(pid));
}

PageSource OpenTouchedPages(pid_t pid) {
  return ScanOrRead(pid, {pagemap::kScanPresent | pagemap::kScanSwapped, pagemap::kScanZeroes},
                    TouchedPagesOf(EntriesOf(pid)));
}

PageSource OpenWrittenPages(pid_t pid) {
  return ScanOrRead(
      pid,
      {pagemap::kScanPresent | pagemap::kScanSwapped, pagemap::kScanZeroes | pagemap::kScanOfFile},
      WrittenPagesOf(EntriesOf(pid)));
}

bool IsGuardPage(pid_t pid, Address address) {
  uint64_t entry = 0;
  return EntriesOf(pid)(address / kPageBytes, &entry, 1) == 1 && (entry & pagemap::kGuard) != 0;
}

ResidentPages::ResidentPages(PageSource source, std::vector<MappingUse> mappings)
    : source_(std::move(source)),
      mappings_(std::move(mappings)),
      states_(mappings_.size()),
      page_bytes_(kPageBytes) {}

void ResidentPages::Learn(const MappingUse& use, State* state) {
  try {
    state->runs = source_(use.mapping.start / page_bytes_, use.mapping.end / page_bytes_);
  } catch (const RangeTooLong&) {
    // The resident bytes of the mapping are known only as a whole.
  }
  uint64_t present = 0;
  uint64_t possible = 0;
  for (const PageRun& run : state->runs) {
    present += run.pages;
    if (run.possible) possible += run.pages;
  }
  const uint64_t resident = use.resident_bytes / page_bytes_;
  if (possible > 0 && present > resident) {
    const auto zeroes = static_cast<double>(present - resident);
    state->possible_weight = std::max(0.0, 1 - zeroes / static_cast<double>(possible));
  }
}

void ResidentPages::PutBack() {
  for (State& state : states_) state.taken_bytes = 0;
}

uint64_t ResidentPages::Left(size_t i) const {
  const uint64_t resident = mappings_[i].resident_bytes;
  return resident - std::min(resident, states_[i].taken_bytes);
}

uint64_t ResidentPages::CountIn(Address start, uint64_t bytes, bool take) {
  const Address end = start + bytes;
  auto at = std::upper_bound(
      mappings_.begin(), mappings_.end(), start,
      [](Address address, const MappingUse& use) { return address < use.mapping.end; });
  uint64_t sum = 0;
  for (; at != mappings_.end() && at->mapping.start < end; ++at) {
    if (at->resident_bytes == 0) continue;
    State& state = states_[static_cast<size_t>(at - mappings_.begin())];
    if (!std::exchange(state.known, true)) Learn(*at, &state);
    const uint64_t first = std::max(start, at->mapping.start) / page_bytes_;
    const uint64_t last = (std::min(end, at->mapping.end) + page_bytes_ - 1) / page_bytes_;
    uint64_t certain = 0;
    uint64_t possible = 0;
    for (auto run = std::upper_bound(
             state.runs.begin(), state.runs.end(), first,
             [](uint64_t page, const PageRun& each) { return page < each.first + each.pages; });
         run != state.runs.end() && run->first < last; ++run) {
      const uint64_t pages = std::min(run->first + run->pages, last) - std::max(run->first, first);
      (run->possible ? possible : certain) += pages;
    }
    const double weighted = static_cast<double>(possible) * state.possible_weight;
    const uint64_t counted = (certain + static_cast<uint64_t>(std::lround(weighted))) * page_bytes_;
    if (take) state.taken_bytes += counted;
    sum += counted;
  }
  return sum;
}

}  // namespace cli
