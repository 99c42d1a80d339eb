// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "bench/common/random.h"

namespace tcmalloc::bench {
namespace {

// With 10,000 resamples 250 lie beyond each end of a 95 % interval.
constexpr int kResamples = 10'000;

double QuantileOfSorted(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(position));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

std::vector<double> Sorted(std::span<const double> sample) {
  std::vector<double> sorted(sample.begin(), sample.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

double Quantile(std::span<const double> sample, double q) {
  assert(!sample.empty() && q >= 0 && q <= 1);
  return QuantileOfSorted(Sorted(sample), q);
}

double Median(std::span<const double> sample) { return Quantile(sample, 0.5); }

Interval Quartiles(std::span<const double> sample) {
  const std::vector<double> sorted = Sorted(sample);
  return {.low = QuantileOfSorted(sorted, 0.25), .high = QuantileOfSorted(sorted, 0.75)};
}

Interval BootstrapMedian(std::span<const double> sample, double confidence, uint64_t seed) {
  assert(!sample.empty() && confidence > 0 && confidence < 1);
  Random random(seed);
  std::vector<double> medians(kResamples);
  std::vector<double> resample(sample.size());
  for (double& median : medians) {
    for (double& value : resample) value = sample[random.Below(sample.size())];
    std::sort(resample.begin(), resample.end());
    median = QuantileOfSorted(resample, 0.5);
  }
  std::sort(medians.begin(), medians.end());
  const double tail = (1 - confidence) / 2;
  return {.low = QuantileOfSorted(medians, tail), .high = QuantileOfSorted(medians, 1 - tail)};
}

RatioEstimate PairedRatio(std::span<const double> ours, std::span<const double> peer,
                          uint64_t seed) {
  assert(!ours.empty() && ours.size() == peer.size());
  std::vector<double> ratios(ours.size());
  std::transform(ours.begin(), ours.end(), peer.begin(), ratios.begin(),
                 [](double our_time, double peer_time) { return our_time / peer_time; });
  return {.median = Median(ratios), .interval = BootstrapMedian(ratios, 0.95, seed)};
}

size_t FastestSeries(std::span<const std::vector<double>> series) {
  size_t fastest = series.size();
  double fastest_median = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    if (series[i].empty()) continue;
    const double median = Median(series[i]);
    if (fastest == series.size() || median < fastest_median) {
      fastest = i;
      fastest_median = median;
    }
  }
  return fastest;
}

}  // namespace tcmalloc::bench
