// SPDX-License-Identifier: BSD-3-Clause
// /proc/PID/pagemap, as Documentation/admin-guide/mm/pagemap.rst of Linux describes it: the bits of
// an entry, and the request that scans for pages, which headers before Linux 6.7 lack.
#pragma once

#include <cstdint>

namespace tcmalloc::pagemap {

// Bits of an entry.
constexpr uint64_t kPresent = uint64_t{1} << 63;
constexpr uint64_t kSwapped = uint64_t{1} << 62;
constexpr uint64_t kOfFileOrShared = uint64_t{1} << 61;
constexpr uint64_t kGuard = uint64_t{1} << 58;
constexpr uint64_t kExclusive = uint64_t{1} << 56;

// The structures page_region and pm_scan_arg.
struct Region {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};
struct Scan {
  uint64_t size = sizeof(Scan);
  uint64_t flags = 0;
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t walk_end = 0;
  uint64_t regions = 0;
  uint64_t num_regions = 0;
  uint64_t max_pages = 0;
  uint64_t category_inverted = 0;
  uint64_t category_mask = 0;
  uint64_t category_anyof_mask = 0;
  uint64_t return_mask = 0;
};

// Categories of a scan.
constexpr uint64_t kScanOfFile = uint64_t{1} << 2;
constexpr uint64_t kScanPresent = uint64_t{1} << 3;
constexpr uint64_t kScanSwapped = uint64_t{1} << 4;
constexpr uint64_t kScanZeroes = uint64_t{1} << 5;
constexpr uint64_t kScanHuge = uint64_t{1} << 6;
// A newer kernel adds this one.
constexpr uint64_t kScanGuard = uint64_t{1} << 8;

}  // namespace tcmalloc::pagemap
