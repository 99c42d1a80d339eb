// SPDX-License-Identifier: BSD-3-Clause
// Durations in settings: an integer and a unit (ms, s, m, h; seconds without a unit). Pure
// functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/text_fields.h"
#include "base/tuning.h"

namespace tcmalloc {

// Parses all of `text` into milliseconds. False for a malformed duration, or one outside the limits
// of Tuning::Reports.
constexpr bool ParseInterval(std::string_view text, int64_t* ms) {
  uint64_t number = 0;
  if (!TakeNumber(&text, &number) || number > kTuning.reports.max_interval_ms) return false;
  uint64_t unit = 0;
  if (text == "ms") unit = 1;
  if (text.empty() || text == "s") unit = 1000;
  if (text == "m") unit = 60'000;
  if (text == "h") unit = 3'600'000;
  number *= unit;
  if (number < kTuning.reports.min_interval_ms || number > kTuning.reports.max_interval_ms)
    return false;
  *ms = static_cast<int64_t>(number);
  return true;
}

}  // namespace tcmalloc
