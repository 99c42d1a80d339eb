// SPDX-License-Identifier: BSD-3-Clause
// TCMALLOC_STATS_EVERY: the statistics as JSON, a line at each interval, written by the helper
// thread (heap/helper_thread.h). Each line is one write to the end of the file, which is opened
// for it, so that processes can share a file and programs that rotate logs can move it.
//
// Cost: for each line what a snapshot and its formatting take, tens of microseconds; the line, up
// to some 30 KiB, is put together on the helper's stack.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

struct Heap;

// What the setting asks for.
struct StatsSeries {
  int64_t interval_ms = 0;
  std::string_view file;  // empty: stderr
};
// False when `text` is neither INTERVAL nor INTERVAL,FILE.
bool ParseStatsSeries(std::string_view text, StatsSeries* series);

// Begins what the settings ask for, with a line on stderr where that is not possible. When the
// library is loaded.
void StartStatsSeries(Heap& heap);

}  // namespace tcmalloc
