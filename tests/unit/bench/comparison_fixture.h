// SPDX-License-Identifier: BSD-3-Clause

// Hand-made measurements, for tests of the conclusions that are drawn from measurements.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/micro/comparison.h"

namespace tcmalloc::bench {

inline Allocator MakeAllocator(const std::string& name, bool ours) {
  Allocator allocator;
  allocator.name = name;
  allocator.ours = ours;
  allocator.library = "/lib/" + name + ".so";
  allocator.source = "package " + name;
  return allocator;
}

// A sample of one pattern, with three slices whose median is the given time.
inline Sample MakeSample(double time) {
  Sample sample;
  sample.times = {PatternTimes{.slices = {time + 5, time - 0.5, time}}};
  sample.version = "1.2";
  sample.pinned = true;
  return sample;
}

inline Sample MakeFailure(const std::string& failure) {
  Sample sample;
  sample.failure = failure;
  return sample;
}

// `times` has a time for each allocator, or nothing for one that was not measured in this round.
inline Round MakeRound(bool pilot, const std::vector<std::optional<double>>& times) {
  Round round;
  round.pilot = pilot;
  for (size_t i = 0; i < times.size(); ++i) {
    round.samples.emplace_back();
    if (!times[i].has_value()) continue;
    round.order.push_back(i);
    round.samples.back() = MakeSample(*times[i]);
  }
  return round;
}

// Compares "ours" with "red" and "blue".
inline Comparison MakeComparison() {
  return Comparison(
      {MakeAllocator("ours", true), MakeAllocator("red", false), MakeAllocator("blue", false)},
      RunOptions{.patterns = {0}, .seed = 1, .cpu = 0, .divisor = 1});
}

}  // namespace tcmalloc::bench
