// SPDX-License-Identifier: BSD-3-Clause
#include "image/file_pages.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace cli {
namespace {

constexpr uint64_t kPieceOfFile = uint64_t{1} << 20;

bool IsZero(const char* bytes, size_t n) {
  return std::all_of(bytes, bytes + n, [](char c) { return c == 0; });
}

// Adds the pages of [start, end) that are not all zeroes; returns their bytes.
uint64_t AddPages(CoreImage& core, Address start, Address end, std::vector<PageRun>* runs) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<char> piece(kPieceOfFile);
  uint64_t bytes = 0;
  for (Address at = start / page * page; at < end; at += kPieceOfFile) {
    const size_t n = std::min(kPieceOfFile, end - at);
    if (!core.Read(at, piece.data(), n)) break;
    for (size_t i = 0; i + page <= n; i += page) {
      if (IsZero(&piece[i], page)) continue;
      const uint64_t number = (at + i) / page;
      const uint64_t next = runs->empty() ? 0 : runs->back().first + runs->back().pages;
      if (number < next) continue;  // two parts begin and end in this page
      bytes += page;
      if (number == next && !runs->empty()) {
        ++runs->back().pages;
      } else {
        runs->push_back({.first = number, .pages = 1});
      }
    }
  }
  return bytes;
}

}  // namespace

PageSource SourceOf(std::vector<PageRun> runs) {
  return [shared = std::make_shared<const std::vector<PageRun>>(std::move(runs))](uint64_t first,
                                                                                  uint64_t end) {
    std::vector<PageRun> found;
    for (auto run = std::upper_bound(
             shared->begin(), shared->end(), first,
             [](uint64_t page, const PageRun& each) { return page < each.first + each.pages; });
         run != shared->end() && run->first < end; ++run) {
      const uint64_t begin = std::max(run->first, first);
      const uint64_t pages = std::min(run->first + run->pages, end) - begin;
      found.push_back({.first = begin, .pages = pages, .possible = run->possible});
    }
    return found;
  };
}

FilePages ReadFilePages(CoreImage& core) {
  if (core.is_snapshot()) return {core.facts().mappings, SourceOf(core.facts().pages)};
  FilePages pages;
  std::vector<PageRun> runs;
  uint64_t left = core.file_bytes();
  for (Mapping& mapping : core.Mappings()) {
    MappingUse use{.mapping = std::move(mapping)};
    if (use.mapping.readable) {
      const uint64_t bytes = use.mapping.end - use.mapping.start;
      if (bytes > left) throw BadImage("parts of the core lie at the same place of the file");
      left -= bytes;
      for (const auto& [start, end] : core.PartsInMemory(use.mapping.start, use.mapping.end)) {
        use.resident_bytes += AddPages(core, start, end, &runs);
      }
      if (use.mapping.writable) use.anonymous_bytes = use.resident_bytes;
    }
    pages.uses.push_back(std::move(use));
  }
  pages.pages = SourceOf(std::move(runs));
  return pages;
}

}  // namespace cli
