// SPDX-License-Identifier: BSD-3-Clause
// Diagnosis: explains why a process's resident memory exceeds the objects that it holds. It is a
// pure function of facts. The result is a list of shares whose sum is the resident memory, each
// with the setting or the call that would change it.
//
// The verdict is growth, if the readings show a notable one. Else it is `in_use` if objects in use
// are half of the memory or no other share is a tenth of it; else the largest other share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heap/memory_use.h"
#include "heap/statistics.h"

namespace cli {

// The change of the objects that the program holds, over several readings.
struct Growth {
  struct Part {
    std::string what;  // "objects of 48 bytes"
    int64_t bytes = 0;
  };
  double seconds = 0;
  int64_t in_use_bytes = 0;
  bool steady = false;      // it grew from each reading to the next
  std::vector<Part> parts;  // the parts that grew, largest first

  double bytes_per_second() const {
    return seconds > 0 ? static_cast<double>(in_use_bytes) / seconds : 0;
  }
};
// `readings`, at least two, are equally far apart and took `seconds` together.
Growth GrowthOver(const std::vector<Statistics>& readings, double seconds);
// "grew by 4.5 MiB in 10.0 s (460.8 KiB/s, 1.6 GiB in an hour at that rate)".
std::string GrowthText(const Growth& growth);

// The time at which the process carries out a request of a command.
enum class RequestTime { kNever, kAtNextAllocation, kAtOnce };

struct Facts {
  std::string target;       // the argument of a command: the PID, or a file
  bool is_running = false;  // it is not a core file
  RequestTime requests = RequestTime::kNever;
  HeapUse heap;
  ProcessUse process;
  Statistics stats;
  uint64_t resident_bytes = 0;  // by the kernel
  uint64_t swapped_bytes = 0;
  std::optional<Growth> growth;
  uint64_t sampling_interval = 0;  // mean bytes between samples; 0 if no samples are taken
  bool can_sample = false;         // True unless it has the minimal library.
  // True for a core file: it does not say what was resident, and lacks pages that were.
  bool resident_is_minimum = false;
  // The memory of objects that a core file lacks, and the reason.
  uint64_t lacking_bytes = 0;
  std::string lacking;
  std::vector<std::string> hints;    // about the environment, a line each
  bool is_python_that_maps = false;  // a Python interpreter without PYTHONMALLOC=malloc
  // The name of another malloc, if the process has one; then the heap's facts are empty.
  std::string other_malloc;
};

struct ResidentShare {
  std::string name;  // in JSON
  uint64_t bytes = 0;
  std::string what;
  std::string detail;  // figures that explain it; may be empty
  std::string remedy;  // may be empty
  bool of_heap = true;
};

struct Diagnosis {
  // The name of the share that explains most, or "growth", or "in_use".
  std::string verdict;
  // The answer of the verdict, a sentence or two.
  std::string answer;
  std::string remedy;
  std::string growth;                 // a sentence, unless the answer has it; may be empty
  uint64_t resident_bytes = 0;        // the sum of the shares
  std::vector<ResidentShare> shares;  // objects in use first, then the largest first
  std::vector<std::string> notes;
};

Diagnosis Diagnose(const Facts& facts);

}  // namespace cli
