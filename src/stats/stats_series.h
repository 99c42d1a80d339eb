// SPDX-License-Identifier: BSD-3-Clause
// TCMALLOC_STATS_EVERY: writes the statistics as a line of JSON at each interval, in the helper
// thread (process/helper_thread.h). Opens the file for each line and appends the line by one write,
// so processes can share a file, and log rotation can move it.
//
// Cost of a line: a snapshot and its formatting take tens of microseconds, and up to some 30 KiB of
// the helper's stack.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

struct Heap;

// The value of the setting.
struct StatsSeries {
  int64_t interval_ms = 0;
  std::string_view file;  // empty: stderr
};
// False when `text` is neither INTERVAL nor INTERVAL,FILE.
bool ParseStatsSeries(std::string_view text, StatsSeries* series);

// Starts the series that the setting requests; prints a line on stderr if that fails. Called when
// the library is loaded.
void StartStatsSeries(Heap& heap);

}  // namespace tcmalloc
