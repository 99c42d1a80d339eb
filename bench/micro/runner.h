// SPDX-License-Identifier: BSD-3-Clause

// One measurement: this program executes itself again with an allocator preloaded, and that child
// times the patterns and proves whose malloc it called. Both ends are in runner.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/common/allocator.h"

namespace tcmalloc::bench {

// The first argument of a process that is to be the measured child.
inline constexpr char kChildArgument[] = "child";

struct RunOptions {
  // Indices into Patterns().
  std::vector<size_t> patterns;
  uint64_t seed = 0;
  // The processor to stay on.
  int cpu = 0;
  // Each slice does this fraction of its pattern's pairs. Above 1 only to try the program out.
  uint64_t divisor = 1;
};

struct PatternTimes {
  // Nanoseconds per pair of malloc and free, one figure per timed slice, in order.
  std::vector<double> slices;

  // What stands for this process: the median slice, which an interruption does not reach.
  double nanoseconds() const;
  double fastest() const;
};

struct Sample {
  // What became of a process that did not finish; empty: it did, and the rest holds.
  std::string failure;
  // One per pattern of RunOptions::patterns.
  std::vector<PatternTimes> times;
  // The allocator's own statement, where it exports one that is known here.
  std::string version;
  bool pinned = false;

  bool ok() const { return failure.empty(); }
};

// Measures once. Throws std::runtime_error when another library than the allocator's served malloc
// or free, or when the child's report cannot be read: there is no use in going on.
Sample Measure(const Allocator& allocator, const RunOptions& options);

// The child's main function. `arguments` are those after kChildArgument.
int RunChild(std::span<char* const> arguments);

}  // namespace tcmalloc::bench
