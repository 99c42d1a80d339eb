// SPDX-License-Identifier: BSD-3-Clause
// Statistics of a target's heap: the figures of tcmalloc_stats_json, by the same rules. When the
// target is at rest they are equal. While it runs, each figure was correct at some moment, and the
// sums are consistent: see docs/statistics.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heap/record.h"
#include "heap/setting_changes.h"

namespace cli {

struct SizeClassStatistics {
  uint64_t object_bytes = 0;
  uint64_t spans = 0;
  uint64_t in_use_objects = 0;   // includes sampled objects, which are not in these spans
  uint64_t sampled_objects = 0;  // the sampled objects among them
  uint64_t cached_objects = 0;
  uint64_t central_objects = 0;
  uint64_t objects_per_span = 0;
  uint64_t span_bytes = 0;
  uint64_t sampled_span_bytes = 0;  // of a span that has one sampled object

  bool any() const { return spans > 0 || sampled_objects > 0; }
  // The bytes of the pages that the class has.
  uint64_t memory_bytes() const {
    return spans * span_bytes + sampled_objects * sampled_span_bytes;
  }
};

struct FreeSpanStatistics {
  uint64_t backed = 0;
  uint64_t released = 0;
};

struct Statistics {
  // Names as in JSON, in its order.
  std::vector<std::pair<std::string, uint64_t>> figures;
  std::string hugepage_mode;
  std::vector<SizeClassStatistics> classes;    // by number; there is no class 0
  std::vector<FreeSpanStatistics> free_spans;  // element i is for spans of i + 1 pages
  FreeSpanStatistics longer;
  uint64_t longer_backed_bytes = 0;
  uint64_t longer_released_bytes = 0;
  std::string settings;                // those of the environment that differ from the default
  std::vector<SettingChange> changes;  // of settings, since the start
  // True if a part changed at every attempt to read it, so that some figures may be of different
  // moments.
  bool unsettled = false;

  uint64_t figure(std::string_view name) const;
};

// Does not stop the target. Throws BadImage when its records stay contradictory.
Statistics ReadStatistics(const Target& target);

}  // namespace cli
