// SPDX-License-Identifier: BSD-3-Clause

// Statistics of paired measurements: order statistics, a bootstrap interval of the median, and the
// verdict "not slower". Pure functions of their arguments; the bootstrap takes its seed from the
// caller, so the same measurements always give the same interval.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tcmalloc::bench {

struct Interval {
  double low;
  double high;
};

// A ratio of two allocators' times. Below 1 the first allocator is faster.
struct RatioEstimate {
  double median;
  Interval interval;

  // The measurements do not rule out that the first allocator is at least as fast as the second.
  bool not_slower() const { return interval.low <= 1.0; }
};

// Returns the value below which the fraction `q` of the sample lies, interpolated linearly.
// Requires: the sample is not empty, 0 <= q <= 1.
double Quantile(std::span<const double> sample, double q);

double Median(std::span<const double> sample);

// The first and the third quartile.
Interval Quartiles(std::span<const double> sample);

// Percentile bootstrap of the median at the given confidence (0.95 for 95 %).
Interval BootstrapMedian(std::span<const double> sample, double confidence, uint64_t seed);

// Returns the median of ours[i] / peer[i] with its 95 % interval. Measurements of one round share
// that round's disturbances, which cancel in the ratio, but not in a ratio of two medians.
// Requires: equally many measurements, at least one.
RatioEstimate PairedRatio(std::span<const double> ours, std::span<const double> peer,
                          uint64_t seed);

// Returns the index of the series with the smallest median, without the empty series;
// series.size() if all of them are empty.
size_t FastestSeries(std::span<const std::vector<double>> series);

}  // namespace tcmalloc::bench
