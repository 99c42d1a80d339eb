// SPDX-License-Identifier: BSD-3-Clause

// One measurement: this program executes itself again with an allocator preloaded, and that child
// times the patterns and reports which library's malloc it called. runner.cc has both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/common/allocator.h"

namespace tcmalloc::bench {

// The first argument of the measured child.
inline constexpr char kChildArgument[] = "child";

struct RunOptions {
  // Indices into Patterns().
  std::vector<size_t> patterns;
  uint64_t seed = 0;
  // The CPU on which the child runs.
  int cpu = 0;
  // Each slice does this fraction of its pattern's pairs. It is above 1 only to try the program.
  uint64_t divisor = 1;
};

struct PatternTimes {
  // Nanoseconds per pair of malloc and free, one figure per timed slice, in order.
  std::vector<double> slices;

  // Returns the figure of this process: the median slice, which an interruption does not change.
  double nanoseconds() const;
  double fastest() const;
};

struct Sample {
  // How a process failed; empty if it finished, and the other members are valid.
  std::string failure;
  // One per pattern of RunOptions::patterns.
  std::vector<PatternTimes> times;
  // The version that the allocator itself reports, if it exports one that is known here.
  std::string version;
  bool pinned = false;

  bool ok() const { return failure.empty(); }
};

// Measures once. Throws std::runtime_error if another library than the allocator's served malloc or
// free, or if the child's report cannot be parsed: further measurements would be useless.
Sample Measure(const Allocator& allocator, const RunOptions& options);

// The child's main function. `arguments` are those after kChildArgument.
int RunChild(std::span<char* const> arguments);

}  // namespace tcmalloc::bench
