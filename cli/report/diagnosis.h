// SPDX-License-Identifier: BSD-3-Clause
// Diagnosis: explains why a process's resident memory exceeds the objects that it holds. It is a
// pure function of facts. The result is shares of the resident memory, which sum to it, each with
// the setting or call that would change it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heap/heap_use.h"
#include "heap/process_use.h"
#include "heap/statistics.h"

namespace cli {

// The change of the objects that the program holds between two readings.
struct Growth {
  struct Part {
    std::string what;  // "objects of 48 bytes"
    int64_t bytes = 0;
  };
  double seconds = 0;
  int64_t in_use_bytes = 0;
  std::vector<Part> parts;  // the parts that grew, largest first
};
Growth GrowthBetween(const Statistics& before, const Statistics& after, double seconds);

struct Facts {
  std::string target;       // the argument of a command: the PID, or a file
  bool is_running = false;  // it is not a core file
  HeapUse heap;
  ProcessUse process;
  Statistics stats;
  uint64_t resident_bytes = 0;  // by the kernel
  uint64_t swapped_bytes = 0;
  std::optional<Growth> growth;
  // The memory of objects that a core file lacks, and the reason.
  uint64_t lacking_bytes = 0;
  std::string lacking;
  // The name of another malloc, if the process has one; then the heap's facts are empty.
  std::string other_malloc;
};

struct ResidentShare {
  std::string name;  // in JSON
  uint64_t bytes = 0;
  std::string what;
  std::string detail;  // figures that explain it; may be empty
  std::string remedy;  // may be empty
};

struct Diagnosis {
  // The name of the share that explains most, or "growth", or "in_use".
  std::string verdict;
  // The answer of the verdict, a sentence or two.
  std::string answer;
  std::string remedy;
  uint64_t resident_bytes = 0;        // the sum of the shares
  std::vector<ResidentShare> shares;  // objects in use first, then the largest first
  std::vector<std::string> notes;
};

Diagnosis Diagnose(const Facts& facts);

}  // namespace cli
