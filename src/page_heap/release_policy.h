// SPDX-License-Identifier: BSD-3-Clause
// ReleasePolicy: how much free memory to release, and when. It only decides: the caller provides
// the time and the state of the heap, and releases.
//
// Rule. The heap keeps the memory that the peak demand of the last seconds needed: a program that
// used it a moment ago is likely to need it again. Free memory beyond that is released, as far as
// RegretBudget allows: what the program needs again at once may cost it a small part of its time
// only. The rate multiplies the budget. It also decides how long the last seconds are: memory_ms
// at rates up to 1, less above. Rate 0 never releases. The numbers and their reasons:
// Tuning::Release. Why idle memory, and not all that a program has just freed: docs/decisions/0053.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/tuning.h"
#include "base/units.h"
#include "page_heap/demand_history.h"
#include "page_heap/regret_budget.h"

namespace tcmalloc {

class ReleasePolicy {
 public:
  // What the heap holds.
  struct State {
    Length in_use;
    Length free_backed;
    Length slack;  // a smaller excess is ignored
  };
  struct Decision {
    // To be released now.
    Length length;
    // Hugepages that are partly in use may be split.
    bool may_split = false;
  };

  double rate() const { return rate_; }
  void SetRate(double rate) { rate_ = rate; }

  // `in_use` pages are in use, and `unfit` free backed pages could not serve the last request,
  // which took `fresh` pages that were not backed. To be called when one of them may have grown.
  // `now_ms`: 0 if it is not known.
  void Demand(Length in_use, Length unfit = Length(0), Length fresh = Length(0),
              int64_t now_ms = 0) {
    history_.Record(in_use + unfit);
    if (fresh == Length(0)) return;
    if (now_ms > 0) budget_.Advance(now_ms, rate_);
    budget_.Fault(fresh);
  }

  // `n` pages were freed. Where it is time to decide: the pages that were freed since the last
  // time; else 0.
  Length PagesFreed(Length n) {
    if (rate_ <= 0) return Length(0);
    freed_ += n;
    const double look_every = static_cast<double>(kTuning.release.look_every.pages());
    if (freed_ < Length(static_cast<size_t>(look_every / std::max(rate_, 1.0)))) return Length(0);
    return std::exchange(freed_, Length(0));
  }

  // What the caller is to release now, at most `most`.
  Decision Decide(int64_t now_ms, const State& state, Length most) {
    history_.Advance(now_ms, WindowMs(), state.in_use);
    budget_.Advance(now_ms, rate_);
    const Length kept = history_.Peak() - state.in_use;
    if (rate_ <= 0 || state.free_backed <= kept + state.slack) return {};
    const Length excess = state.free_backed - kept;
    const Length length = std::min({excess, most, budget_.left()});
    budget_.Spend(length);
    return {length, excess.pages() > state.in_use.pages() / kTuning.release.split_part};
  }

  // `n` more pages were released than decided, since hugepages are released whole. Later decisions
  // release less.
  void ReleasedMore(Length n) { budget_.Spend(n); }

 private:
  friend struct FieldTable;

  int64_t WindowMs() const {
    const double memory = static_cast<double>(kTuning.release.memory_ms) / std::max(rate_, 1.0);
    return std::max<int64_t>(1, static_cast<int64_t>(memory) / int64_t{kTuning.release.windows});
  }

  double rate_ = kTuning.release.default_rate;
  // The demand, with free memory that was too short to serve it.
  DemandHistory history_;
  RegretBudget budget_;
  Length freed_;
};

}  // namespace tcmalloc
