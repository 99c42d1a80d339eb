// SPDX-License-Identifier: BSD-3-Clause
// ReleasePolicy: how much free memory should go back to the system, and when. A pure decision: the
// caller brings the time and the state of the heap, and releases.
//
// Rule. What the peak of the last seconds needed is kept: a program that had it in use a moment ago
// is likely to want it again. What is free beyond that goes at kBytesPerSecond, times the rate. The
// rate also says how long the last seconds are: kMemoryMs at rates up to 1, less above. Rate 0
// never releases. Why these figures: docs/decisions/0014; why a rate from 0 to 10 around 1:
// "tcmalloc_release_rate" of the TCMalloc document.
//
// Prompt release. The rule needs a decision some seconds after the last free. Where no thread of
// the library's makes it, the heap is prompt: once less than half of the peak is in use, it keeps
// PromptlyKept instead and releases the rest while the program frees. That is wrong for a program
// that needs the memory again within kMemoryMs: it pays for the page faults once, and for kTrustMs
// the first rule alone holds. Why: docs/decisions/0032.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "page/demand_history.h"

namespace tcmalloc {

class ReleasePolicy {
 public:
  static constexpr double kDefaultRate = 1.0;
  static constexpr double kMaxRate = 1000;
  // How long a peak is remembered.
  static constexpr int64_t kMemoryMs = 4000;
  static constexpr size_t kBytesPerSecond = size_t{512} << 20;
  // So much is not worth a thought.
  static constexpr Length kSlack = Length((size_t{512} << 10) >> kPageShift);
  // Where only hugepages that are partly in use are left, they are broken when more than this part
  // of what is in use would go.
  static constexpr size_t kBrokenPart = 16;
  // A prompt heap keeps this much free memory, and a quarter of what is in use: small heaps are not
  // worth the page faults of a wrong guess, and the sum stays well below twice what is in use.
  static constexpr Length kPromptlyKept = Length((size_t{4} << 20) >> kPageShift);
  static constexpr size_t kPromptlyKeptPart = 4;
  // A prompt heap releases at most this many pages for each page that is freed, so that a free
  // costs no more than in proportion to what it frees. It begins when half is free and has the
  // other half to do it in: more than 3 reach the goal.
  static constexpr size_t kReleasedPerFreed = 8;
  // How long a prompt heap that has released too early follows the first rule alone. Programs that
  // work in phases release their memory in vain once in this time.
  static constexpr int64_t kTrustMs = 60'000;
  // Freeing looks at the clock once in so many pages.
  static constexpr Length kLookEvery = Length((size_t{1} << 20) >> kPageShift);

  // What the heap holds.
  struct State {
    Length in_use;
    Length free_mapped;
    bool prompt = false;
  };
  struct Decision {
    // To be released now.
    Length length;
    // Also where it breaks hugepages that are partly in use.
    bool may_break = false;
  };

  double rate() const { return rate_; }
  void SetRate(double rate) { rate_ = rate; }

  // `in_use` pages are in use, and `unfit` free ones with memory behind them did not serve the
  // last request. To be called when that may have grown. `now_ms`: 0 where it is not known.
  void Demand(Length in_use, Length unfit = Length(0), int64_t now_ms = 0) {
    history_.Record(in_use + unfit);
    used_.Record(in_use);
    if (in_use + unfit > left_) {
      released_too_early_ = now_ms == 0 || now_ms - prompt_release_ms_ < kMemoryMs;
      left_ = kNothingReleased;
    }
  }

  // `n` pages were freed. True when it is time to decide.
  bool PagesFreed(Length n) {
    if (rate_ <= 0) return false;
    freed_ += n;
    if (freed_ < kLookEvery) return false;
    freed_to_answer_ = freed_;
    freed_ = Length(0);
    return true;
  }
  // The most that a prompt heap may release now.
  Length TakePromptLimit() {
    const Length limit(freed_to_answer_.pages() * kReleasedPerFreed);
    freed_to_answer_ = Length(0);
    return limit;
  }

  // What to release now, at most `most`; the caller does so.
  Decision Decide(int64_t now_ms, const State& state, Length most) {
    history_.Advance(now_ms, WindowMs(), state.in_use);
    used_.Advance(now_ms, WindowMs(), state.in_use);
    if (released_too_early_) {
      released_too_early_ = false;
      trusted_until_ms_ = now_ms + kTrustMs;
    }
    const double pages_per_second = rate_ * static_cast<double>(kBytesPerSecond >> kPageShift);
    // Not below zero: another thread may have read the clock later and come here first.
    const auto elapsed_ms = static_cast<double>(std::max<int64_t>(now_ms - decided_ms_, 0));
    decided_ms_ = std::max(decided_ms_, now_ms);
    allowance_ = std::min(allowance_ + pages_per_second * elapsed_ms / 1000, pages_per_second);
    const Length needed = history_.Peak() - state.in_use;
    const bool drop = state.prompt && IsDrop(now_ms, state.in_use);
    const Length kept = drop ? std::min(needed, PromptlyKept(state.in_use)) : needed;
    if (rate_ <= 0 || state.free_mapped <= kept + kSlack) return {};
    const Length excess = state.free_mapped - kept;
    // Of a drop there may be no later: what is freed sets the pace, unless less is wanted.
    const bool paced = !drop || rate_ < kDefaultRate;
    Length length = std::min(excess, most);
    if (paced) {
      length = std::min(length, Length(static_cast<size_t>(std::max(allowance_, 0.0))));
      allowance_ -= static_cast<double>(length.pages());
    }
    if (kept < needed) {
      prompt_release_ms_ = now_ms;
      left_ = state.in_use + state.free_mapped - length;
    }
    return {length, excess.pages() > state.in_use.pages() / kBrokenPart};
  }

  // So much more went than was decided, since hugepages go whole: it counts for the next decisions.
  void ReleasedMore(Length n) { allowance_ -= static_cast<double>(n.pages()); }

  static constexpr Length PromptlyKept(Length in_use) {
    return kPromptlyKept + Length(in_use.pages() / kPromptlyKeptPart);
  }

 private:
  // More than any heap has.
  static constexpr Length kNothingReleased = Length(SIZE_MAX >> kPageShift);

  // Far less is in use than a moment ago, and what was released so before was not needed again.
  bool IsDrop(int64_t now_ms, Length in_use) const {
    return now_ms >= trusted_until_ms_ && used_.Peak().pages() / 2 > in_use.pages();
  }
  int64_t WindowMs() const {
    const double memory = static_cast<double>(kMemoryMs) / std::max(rate_, 1.0);
    return std::max<int64_t>(1, static_cast<int64_t>(memory) / int64_t{DemandHistory::kWindows});
  }

  double rate_ = kDefaultRate;
  // What was needed, memory that was free and too short included; and what was in use alone.
  DemandHistory history_;
  DemandHistory used_;
  Length freed_;
  // Freed before the last time to decide, 0 where TakePromptLimit was called since.
  Length freed_to_answer_;
  // What had memory behind it after the last release that the first rule alone would not have
  // made, and when that was.
  Length left_ = kNothingReleased;
  int64_t prompt_release_ms_ = 0;
  // More than `left_` was needed within kMemoryMs: to be noted with the next decision's time.
  bool released_too_early_ = false;
  int64_t trusted_until_ms_ = 0;
  int64_t decided_ms_ = 0;
  // Pages that may be released by now; below zero after ReleasedMore.
  double allowance_ = 0;
};

}  // namespace tcmalloc
