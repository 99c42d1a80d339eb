// SPDX-License-Identifier: BSD-3-Clause
// ProcessFacts: identifies the process that statistics are about: the library, the program, the
// time, and the kernel's figures for the memory of the whole process, which is more than the heap.
//
// Collecting takes no lock, not even the dynamic linker's, and never allocates; errno is kept.
// Cost: some system calls and a scan of /proc/self/maps, tens of microseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"

namespace tcmalloc {

// The version of this project, not of the gperftools interface.
extern const std::string_view kLibraryVersion;

struct Settings;

struct ProcessFacts {
  static constexpr size_t kMaxName = 256;

  uint64_t pid = 0;
  int64_t seconds = 0;  // since 1970
  // From the kernel; 0 if /proc is missing. Anonymous memory is resident memory of no file.
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;
  // File names, cut off at kMaxName; empty if unknown.
  char program[kMaxName] = "";
  char library[kMaxName] = "";
  const char* settings = "";  // Settings::given
};

// `settings` outlive the facts.
void CollectProcessFacts(const Settings& settings, ProcessFacts* facts);

// The lines above the text of the statistics; none of them begins with "MALLOC:".
void WriteBanner(const ProcessFacts& facts, TextWriter* out);

// Members of a JSON object, with a comma after each.
void WriteFactsAsJson(const ProcessFacts& facts, TextWriter* out);

}  // namespace tcmalloc
