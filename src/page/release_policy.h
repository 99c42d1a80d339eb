// SPDX-License-Identifier: BSD-3-Clause
// ReleasePolicy: how much free memory should go back to the system, and when. A pure decision: the
// caller brings the time and the state of the heap, and releases.
//
// Rule. What the peak of the last seconds needed is kept: a program that had it in use a moment ago
// is likely to want it again. What is free beyond that goes at bytes_per_second, times the rate.
// The rate also says how long the last seconds are: memory_ms at rates up to 1, less above. Rate 0
// never releases. The numbers, and why they are so: Tuning::Release.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"
#include "base/units.h"
#include "page/demand_history.h"

namespace tcmalloc {

class ReleasePolicy {
 public:
  // What the heap holds.
  struct State {
    Length in_use;
    Length free_mapped;
    Length slack;  // a smaller excess is ignored
  };
  struct Decision {
    // To be released now.
    Length length;
    // Also where it breaks hugepages that are partly in use.
    bool may_break = false;
  };

  double rate() const { return rate_; }
  void SetRate(double rate) { rate_ = rate; }

  // So much memory is needed now. To be called when it may have grown.
  void Demand(Length n) { history_.Record(n); }

  // `n` pages were freed. True when it is time to decide.
  bool PagesFreed(Length n) {
    if (rate_ <= 0) return false;
    freed_ += n;
    if (freed_ < kTuning.release.look_every) return false;
    freed_ = Length(0);
    return true;
  }

  // What to release now, at most `most`; the caller does so.
  Decision Decide(int64_t now_ms, const State& state, Length most) {
    history_.Advance(now_ms, WindowMs(), state.in_use);
    const double pages_per_second =
        rate_ * static_cast<double>(kTuning.release.bytes_per_second >> kPageShift);
    // Not below zero: another thread may have read the clock later and come here first.
    const auto elapsed_ms = static_cast<double>(std::max<int64_t>(now_ms - decided_ms_, 0));
    decided_ms_ = std::max(decided_ms_, now_ms);
    allowance_ = std::min(allowance_ + pages_per_second * elapsed_ms / 1000, pages_per_second);
    const Length kept = history_.Peak() - state.in_use;
    if (rate_ <= 0 || state.free_mapped <= kept + state.slack) return {};
    const Length excess = state.free_mapped - kept;
    const Length length =
        std::min({excess, most, Length(static_cast<size_t>(std::max(allowance_, 0.0)))});
    allowance_ -= static_cast<double>(length.pages());
    return {length, excess.pages() > state.in_use.pages() / kTuning.release.split_part};
  }

  // So much more went than was decided, since hugepages go whole: it counts for the next decisions.
  void ReleasedMore(Length n) { allowance_ -= static_cast<double>(n.pages()); }

 private:
  int64_t WindowMs() const {
    const double memory = static_cast<double>(kTuning.release.memory_ms) / std::max(rate_, 1.0);
    return std::max<int64_t>(1, static_cast<int64_t>(memory) / int64_t{kTuning.release.windows});
  }

  double rate_ = kTuning.release.default_rate;
  DemandHistory history_;
  Length freed_;
  int64_t decided_ms_ = 0;
  // Pages that may be released by now; below zero after ReleasedMore.
  double allowance_ = 0;
};

}  // namespace tcmalloc
