// SPDX-License-Identifier: BSD-3-Clause

// A comparison of allocators. Each round measures all of them in a new random order, so that a
// disturbance of the machine affects all of them alike. The first rounds are a pilot: they only
// choose the peer of each pattern with which the others are compared. (If the counted rounds chose
// the fastest peer, it would be fast partly by luck.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/common/allocator.h"
#include "bench/micro/runner.h"
#include "bench/micro/statistics.h"

namespace tcmalloc::bench {

struct Round {
  bool pilot = false;
  // Indices of the allocators in the order in which they ran.
  std::vector<size_t> order;
  // Indexed by allocator; nothing for an allocator that is missing or has failed before.
  std::vector<std::optional<Sample>> samples;
};

// The figures of one allocator on one pattern, over the counted rounds.
struct Summary {
  double median;
  double fastest_slice;
  Interval quartiles;
};

struct Verdict {
  size_t allocator = 0;
  // The position of the pattern in RunOptions::patterns.
  size_t pattern = 0;
  // The fastest peer of the pilot, and the ratio to it; empty if there is no figure, and then
  // `reason` says why.
  std::optional<size_t> fastest_peer;
  std::optional<RatioEstimate> ratio;
  std::string reason;

  bool not_slower() const { return ratio.has_value() && ratio->not_slower(); }
};

class Comparison {
 public:
  // Called after each round, with its number from 1 on and the number of all rounds.
  using Progress = std::function<void(size_t round, size_t rounds)>;

  Comparison(std::vector<Allocator> allocators, RunOptions options);

  // Measures everything. May throw what Measure() throws.
  void Run(size_t pilot_rounds, size_t counted_rounds, const Progress& progress);

  // Appends a round that was measured elsewhere.
  void Add(Round round);

  const std::vector<Allocator>& allocators() const { return allocators_; }
  const RunOptions& options() const { return options_; }
  const std::vector<Round>& rounds() const { return rounds_; }

  // Returns "missing", or how the process failed; empty if it was measured in each round.
  std::string Failure(size_t allocator) const;
  std::string Version(size_t allocator) const;
  bool pinned() const;

  // Returns the allocator's figures of the counted rounds; empty if it is missing or has failed.
  std::vector<double> Series(size_t allocator, size_t pattern) const;
  std::optional<Summary> Summarize(size_t allocator, size_t pattern) const;
  std::optional<RatioEstimate> Ratio(size_t ours, size_t peer, size_t pattern) const;

  // Returns a verdict for each of this project's libraries and each pattern.
  std::vector<Verdict> Verdicts() const;

 private:
  std::vector<double> SeriesOf(bool pilot, size_t allocator, size_t pattern) const;
  std::optional<size_t> FastestPeer(size_t pattern) const;

  std::vector<Allocator> allocators_;
  RunOptions options_;
  std::vector<Round> rounds_;
};

}  // namespace tcmalloc::bench
