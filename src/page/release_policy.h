// SPDX-License-Identifier: BSD-3-Clause
// ReleasePolicy: how much free memory to release, and when. It only decides: the caller provides
// the time and the state of the heap, and releases.
//
// Rule. The heap keeps the memory that the peak demand of the last seconds needed: a program that
// used it a moment ago is likely to need it again. Free memory beyond that is released at
// bytes_per_second, times the rate. The rate also decides how long the last seconds are: memory_ms
// at rates up to 1, less above. Rate 0 never releases. The numbers and their reasons:
// Tuning::Release.
//
// Prompt release. The rule needs a decision some seconds after the last free. Where no thread makes
// it, the heap is prompt: once less than half of the peak is in use, it keeps PromptlyKept instead
// and releases the rest while the program frees. A program that needs the memory again within
// memory_ms pays for the page faults once: for prompt_pause_ms after that, only the first rule
// holds. A prompt heap never keeps more than State::prompt_most. Why: docs/decisions/0033.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/tuning.h"
#include "base/units.h"
#include "page/demand_history.h"

namespace tcmalloc {

class ReleasePolicy {
 public:
  // What the heap holds.
  struct State {
    Length in_use;
    Length free_backed;
    Length slack;  // a smaller excess is ignored
    bool prompt = false;
    Length prompt_most;  // a prompt heap never keeps more
  };
  struct Decision {
    // To be released now.
    Length length;
    // Hugepages that are partly in use may be split.
    bool may_split = false;
  };

  double rate() const { return rate_; }
  void SetRate(double rate) { rate_ = rate; }

  // `in_use` pages are in use, and `unfit` free backed pages could not serve the last request. To
  // be called when either may have grown. `now_ms`: 0 if it is not known.
  void Demand(Length in_use, Length unfit = Length(0), int64_t now_ms = 0) {
    history_.Record(in_use + unfit);
    in_use_history_.Record(in_use);
    if (in_use + unfit > backed_after_release_) {
      released_too_early_ = now_ms == 0 || now_ms - prompt_release_ms_ < kTuning.release.memory_ms;
      backed_after_release_ = kNothingReleased;
    }
  }

  // `n` pages were freed. Where it is time to decide: the pages that were freed since the last
  // time; else 0.
  Length PagesFreed(Length n) {
    if (rate_ <= 0) return Length(0);
    freed_ += n;
    if (freed_ < Length(kTuning.release.look_every.pages() / Eagerness())) return Length(0);
    return std::exchange(freed_, Length(0));
  }

  // What the caller is to release now, at most `most`.
  Decision Decide(int64_t now_ms, const State& state, Length most) {
    history_.Advance(now_ms, WindowMs(), state.in_use);
    in_use_history_.Advance(now_ms, WindowMs(), state.in_use);
    if (released_too_early_) {
      released_too_early_ = false;
      prompt_again_ms_ = now_ms + kTuning.release.prompt_pause_ms;
    }
    const double pages_per_second =
        rate_ * static_cast<double>(kTuning.release.bytes_per_second >> kPageShift);
    // Not below zero: another thread may have read the clock later and decided first.
    const auto elapsed_ms = static_cast<double>(std::max<int64_t>(now_ms - decided_ms_, 0));
    decided_ms_ = std::max(decided_ms_, now_ms);
    allowance_ = std::min(allowance_ + pages_per_second * elapsed_ms / 1000, pages_per_second);
    const Length needed = history_.Peak() - state.in_use;
    const bool drop = state.prompt && IsDrop(now_ms, state.in_use);
    Length kept = drop ? std::min(needed, PromptlyKept(state.in_use)) : needed;
    if (state.prompt) kept = std::min(kept, state.prompt_most);
    if (rate_ <= 0 || state.free_backed <= kept + state.slack) return {};
    const Length excess = state.free_backed - kept;
    // After a drop there may be no later decision, so the pace is that of the frees, unless the
    // program wants a lower one.
    const bool paced = kept == needed || rate_ < kTuning.release.default_rate;
    Length length = std::min(excess, most);
    if (paced) {
      length = std::min(length, Length(static_cast<size_t>(std::max(allowance_, 0.0))));
      allowance_ -= static_cast<double>(length.pages());
    }
    if (drop && kept < needed) {
      prompt_release_ms_ = now_ms;
      backed_after_release_ = state.in_use + state.free_backed - length;
    }
    return {length, excess.pages() > state.in_use.pages() / kTuning.release.split_part};
  }

  // `n` more pages were released than decided, since hugepages are released whole. Later decisions
  // release less.
  void ReleasedMore(Length n) { allowance_ -= static_cast<double>(n.pages()); }

  Length PromptlyKept(Length in_use) const {
    const size_t kept =
        kTuning.release.prompt_kept.pages() + in_use.pages() / kTuning.release.prompt_kept_part;
    return Length(kept / Eagerness());
  }
  // Less than half of the recent peak is in use, and no prompt release was too early lately.
  bool IsDrop(int64_t now_ms, Length in_use) const {
    return now_ms >= prompt_again_ms_ && in_use_history_.Peak().pages() / 2 > in_use.pages();
  }

 private:
  friend struct FieldTable;

  // More than any heap has.
  static constexpr Length kNothingReleased = Length(SIZE_MAX >> kPageShift);

  // Rates above 1 divide by this what a prompt heap keeps after a drop, and the pages that are
  // freed between two decisions.
  size_t Eagerness() const { return static_cast<size_t>(std::max(rate_, 1.0)); }
  int64_t WindowMs() const {
    const double memory = static_cast<double>(kTuning.release.memory_ms) / std::max(rate_, 1.0);
    return std::max<int64_t>(1, static_cast<int64_t>(memory) / int64_t{kTuning.release.windows});
  }

  double rate_ = kTuning.release.default_rate;
  // The demand, with free memory that was too short to serve it; and the pages in use alone.
  DemandHistory history_;
  DemandHistory in_use_history_;
  Length freed_;
  // What was backed after the last release that the first rule alone would not have made, and when
  // that was.
  Length backed_after_release_ = kNothingReleased;
  int64_t prompt_release_ms_ = 0;
  // More than backed_after_release_ was needed within memory_ms. The next decision, which knows the
  // time, sets prompt_again_ms_.
  bool released_too_early_ = false;
  int64_t prompt_again_ms_ = 0;
  int64_t decided_ms_ = 0;
  // Pages that may be released by now; below zero after ReleasedMore.
  double allowance_ = 0;
};

}  // namespace tcmalloc
