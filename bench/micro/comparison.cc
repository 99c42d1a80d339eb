// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/comparison.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "bench/common/random.h"

namespace tcmalloc::bench {

Comparison::Comparison(std::vector<Allocator> allocators, RunOptions options)
    : allocators_(std::move(allocators)), options_(std::move(options)) {}

void Comparison::Run(size_t pilot_rounds, size_t counted_rounds, const Progress& progress) {
  Random random(options_.seed);
  const size_t rounds = pilot_rounds + counted_rounds;
  for (size_t number = 1; number <= rounds; ++number) {
    Round round;
    round.pilot = number <= pilot_rounds;
    round.order.resize(allocators_.size());
    round.samples.resize(allocators_.size());
    std::iota(round.order.begin(), round.order.end(), 0);
    random.Shuffle(std::span(round.order));
    std::erase_if(round.order, [this](size_t allocator) { return !Failure(allocator).empty(); });
    for (const size_t allocator : round.order) {
      round.samples[allocator] = Measure(allocators_[allocator], options_);
    }
    Add(std::move(round));
    progress(number, rounds);
  }
}

void Comparison::Add(Round round) { rounds_.push_back(std::move(round)); }

std::string Comparison::Failure(size_t allocator) const {
  if (allocators_[allocator].missing()) return "missing";
  for (const Round& round : rounds_) {
    const std::optional<Sample>& sample = round.samples[allocator];
    if (sample.has_value() && !sample->ok()) return sample->failure;
  }
  return "";
}

std::string Comparison::Version(size_t allocator) const {
  for (const Round& round : rounds_) {
    const std::optional<Sample>& sample = round.samples[allocator];
    if (sample.has_value() && sample->ok()) return sample->version;
  }
  return "unknown";
}

bool Comparison::pinned() const {
  for (const Round& round : rounds_) {
    for (const std::optional<Sample>& sample : round.samples) {
      if (sample.has_value() && sample->ok() && !sample->pinned) return false;
    }
  }
  return true;
}

std::vector<double> Comparison::SeriesOf(bool pilot, size_t allocator, size_t pattern) const {
  std::vector<double> series;
  if (!Failure(allocator).empty()) return series;
  for (const Round& round : rounds_) {
    if (round.pilot != pilot) continue;
    series.push_back(round.samples[allocator]->times[pattern].nanoseconds());
  }
  return series;
}

std::vector<double> Comparison::Series(size_t allocator, size_t pattern) const {
  return SeriesOf(/*pilot=*/false, allocator, pattern);
}

std::optional<Summary> Comparison::Summarize(size_t allocator, size_t pattern) const {
  const std::vector<double> series = Series(allocator, pattern);
  if (series.empty()) return std::nullopt;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Round& round : rounds_) {
    if (round.pilot) continue;
    fastest = std::min(fastest, round.samples[allocator]->times[pattern].fastest());
  }
  return Summary{
      .median = Median(series), .fastest_slice = fastest, .quartiles = Quartiles(series)};
}

std::optional<RatioEstimate> Comparison::Ratio(size_t ours, size_t peer, size_t pattern) const {
  const std::vector<double> our_series = Series(ours, pattern);
  const std::vector<double> peer_series = Series(peer, pattern);
  if (our_series.empty() || peer_series.empty()) return std::nullopt;
  return PairedRatio(our_series, peer_series, options_.seed);
}

std::optional<size_t> Comparison::FastestPeer(size_t pattern) const {
  std::vector<std::vector<double>> pilot(allocators_.size());
  for (size_t i = 0; i < allocators_.size(); ++i) {
    if (!allocators_[i].ours) pilot[i] = SeriesOf(/*pilot=*/true, i, pattern);
  }
  const size_t fastest = FastestSeries(pilot);
  if (fastest == pilot.size()) return std::nullopt;
  return fastest;
}

std::vector<Verdict> Comparison::Verdicts() const {
  std::vector<Verdict> verdicts;
  for (size_t pattern = 0; pattern < options_.patterns.size(); ++pattern) {
    const std::optional<size_t> fastest = FastestPeer(pattern);
    for (size_t ours = 0; ours < allocators_.size(); ++ours) {
      if (!allocators_[ours].ours) continue;
      Verdict verdict;
      verdict.allocator = ours;
      verdict.pattern = pattern;
      verdict.fastest_peer = fastest;
      if (fastest.has_value()) verdict.ratio = Ratio(ours, *fastest, pattern);
      if (!fastest.has_value()) {
        verdict.reason = "no peer was measured";
      } else if (!verdict.ratio.has_value()) {
        verdict.reason = Failure(ours);
      }
      verdicts.push_back(std::move(verdict));
    }
  }
  return verdicts;
}

}  // namespace tcmalloc::bench
