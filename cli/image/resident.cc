// SPDX-License-Identifier: BSD-3-Clause
#include "image/resident.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "image/process.h"

namespace cli {
namespace {

// Bits of an entry of the pagemap.
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kOfFile = uint64_t{1} << 61;
constexpr uint64_t kExclusive = uint64_t{1} << 56;

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
    uint64_t kib = 0;
    if (uses.empty() || !(words >> kib)) continue;
    MappingUse& use = uses.back();
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
  std::ifstream smaps(fmt::format("/proc/{}/smaps", pid));
  if (!smaps) throw Failure(ExplainDenial(pid, errno));
  return ParseSmaps(smaps);
}

PagemapSource OpenPagemap(pid_t pid) {
  const int file = open(fmt::format("/proc/{}/pagemap", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw Failure(ExplainDenial(pid, errno));
  const std::shared_ptr<const int> owner(new int(file), [](const int* descriptor) {
    close(*descriptor);
    delete descriptor;
  });
  return [owner](uint64_t first, uint64_t* entries, size_t n) -> size_t {
    const ssize_t bytes =
        pread(*owner, entries, n * sizeof(uint64_t), static_cast<off_t>(first * sizeof(uint64_t)));
    return bytes < 0 ? 0 : static_cast<size_t>(bytes) / sizeof(uint64_t);
  };
}

ResidentPages::ResidentPages(PagemapSource source, std::vector<MappingUse> mappings)
    : source_(std::move(source)),
      mappings_(std::move(mappings)),
      states_(mappings_.size()),
      window_(kWindow),
      page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) {}

uint64_t ResidentPages::Entry(uint64_t page) {
  if (page < window_first_ || page - window_first_ >= window_pages_) {
    window_first_ = page;
    window_pages_ = source_(page, window_.data(), kWindow);
    if (window_pages_ == 0) return 0;
  }
  return window_[page - window_first_];
}

ResidentPages::Pages ResidentPages::PagesIn(Address start, Address end) {
  Pages pages;
  for (uint64_t page = start / page_bytes_; page < (end + page_bytes_ - 1) / page_bytes_; ++page) {
    const uint64_t entry = Entry(page);
    if ((entry & kPresent) == 0) continue;
    ++((entry & (kOfFile | kExclusive)) != 0 ? pages.certain : pages.possible);
  }
  return pages;
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
    if (!std::exchange(state.known, true)) {
      const Pages all = PagesIn(at->mapping.start, at->mapping.end);
      const uint64_t resident = at->resident_bytes / page_bytes_;
      const uint64_t zeroes =
          all.certain + all.possible > resident ? all.certain + all.possible - resident : 0;
      if (all.possible > 0) {
        const auto possible = static_cast<double>(all.possible);
        state.possible_weight = std::max(0.0, 1 - static_cast<double>(zeroes) / possible);
      }
    }
    const Pages pages = PagesIn(std::max(start, at->mapping.start), std::min(end, at->mapping.end));
    const double possible = static_cast<double>(pages.possible) * state.possible_weight;
    const uint64_t counted =
        (pages.certain + static_cast<uint64_t>(std::lround(possible))) * page_bytes_;
    if (take) state.taken_bytes += counted;
    sum += counted;
  }
  return sum;
}

}  // namespace cli
