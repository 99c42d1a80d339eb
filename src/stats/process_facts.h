// SPDX-License-Identifier: BSD-3-Clause
// ProcessFacts: what tells the statistics of one process from another's: which library and which
// program they are of, when they were taken, and what the kernel says of the process's memory,
// which is more than the heap.
//
// Collecting takes no lock, also not the dynamic linker's, and never allocates; errno is kept.
// Cost: some system calls and a look through /proc/self/maps, tens of microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "config/settings.h"

namespace tcmalloc {

// Of this project, not of the interface that it keeps.
extern const std::string_view kLibraryVersion;

struct ProcessFacts {
  static constexpr size_t kMaxName = 256;

  uint64_t pid = 0;
  int64_t seconds = 0;  // since 1970
  // From the kernel; 0 where /proc is missing. Anonymous memory is resident memory of no file.
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;
  // Files, cut at kMaxName; empty: unknown.
  char program[kMaxName] = "";
  char library[kMaxName] = "";
};

void CollectProcessFacts(ProcessFacts* facts);

// Lines that stand above the text of the statistics, none of which begins with "MALLOC:".
void WriteBanner(const ProcessFacts& facts, const Settings& settings, TextWriter* out);

// Members of a JSON object, with a comma behind each; `settings` as above.
void WriteFactsAsJson(const ProcessFacts& facts, const Settings& settings, TextWriter* out);

}  // namespace tcmalloc
