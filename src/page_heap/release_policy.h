// SPDX-License-Identifier: BSD-3-Clause
// How much free memory is released, and when: the demand so far, what releases may cost, and the
// policy.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/tuned.h"
#include "base/units.h"

namespace tcmalloc {

// The default of TCMALLOC_RELEASE_RATE. The TCMalloc document explains values from 0 to 10 under
// "tcmalloc_release_rate".
inline constexpr double kDefaultReleaseRate = 1.0;

// How long the heap remembers the peak demand for memory, at release rates up to 1. At higher rates
// it is shorter. A program that just used the memory is likely to need it again (decision 0014).
inline constexpr int64_t kReleaseMemoryMs = Tuned(4000, 100, 60'000);
// The heap divides kReleaseMemoryMs into this many windows, and records the peak demand of each.
// Not measured.
inline constexpr size_t kDemandWindows = Tuned(8, 2, 64);

// The most bytes a second that a program may need again within kRegretMs of their release, at a
// release rate of 1. The page faults take 2 % of its time, at 1.4 us for a page of 4 KiB (decision
// 0053).
inline constexpr size_t kRegretBytesPerSecond = Tuned(56_MiB, 1_MiB, 1_GiB);
inline constexpr int64_t kRegretMs = Tuned(1000, 100, kReleaseMemoryMs);
// The most bytes that are released within two windows of kRegretMs, at a release rate of 1. It
// bounds how fast memory is released. Not measured.
inline constexpr size_t kMaxBytesAtRisk = Tuned(1_GiB, 16_MiB, 4095_MiB);

// Partly used hugepages are split only if the heap has to release more than this part of the memory
// in use (decision 0014).
inline constexpr size_t kSplitPart = Tuned(16, 1, 256);

// The most memory that one system call releases. It is more if there is no memory for the record of
// a longer span's rest. A freeing thread waits for that call (decision 0014). A multiple of a
// hugepage.
inline constexpr Length kReleaseSlice = TunedLength(8_MiB, 2_MiB, 64_MiB);
static_assert(kReleaseSlice.bytes() % 2_MiB == 0);
// Threads that free pages look for memory to release each time that they have freed this much
// together. Not measured.
inline constexpr Length kLookEvery = TunedLength(1_MiB, 64_KiB, 2_MiB);
// A span longer than kReleasePart slices is released in parts of this fraction, at most
// kMaxReleasePart, with one system call per slice. Ending a part takes a step for each hugepage
// under the page heap's lock.
inline constexpr size_t kReleasePart = 8;
inline constexpr Length kMaxReleasePart = Length::ForBytes(1_GiB);
static_assert(kMaxReleasePart >= kReleaseSlice && kMaxReleasePart.bytes() % 2_MiB == 0);

// DemandHistory: the most that was in use at once during the last kDemandWindows windows of time,
// with the free memory that was in pieces too short to be used. Of this it counts no more than the
// fresh pages of these windows: they are what the short pieces cost. Else one request for a long
// piece would keep all of a fragmented heap's free memory for the next seconds.
//
// Pure arithmetic: the caller brings the time. Thread safety: none.
class DemandHistory {
 public:
  // `in_use` pages are in use, and `unfit` free backed pages could not serve the last request,
  // which took `fresh` pages that were not backed. To be called when one of them may have grown.
  void Record(Length in_use, Length unfit = Length(0), Length fresh = Length(0)) {
    latest_.fresh += fresh;
    latest_.peak = std::max(latest_.peak, in_use + std::min(unfit, earlier_fresh_ + latest_.fresh));
  }

  // The time is `now_ms`, and `in_use` pages are in use. What was recorded since the last call
  // counts as of now: its time is not known, and it is safer to keep too much than too little.
  void Advance(int64_t now_ms, int64_t window_ms, Length in_use) {
    int64_t passed = (now_ms - window_start_ms_) / window_ms;
    if (passed > 0) {
      window_start_ms_ += passed * window_ms;
      if (passed > int64_t{kDemandWindows}) passed = kDemandWindows;
      for (; passed > 0; --passed) {
        current_ = (current_ + 1) % kDemandWindows;
        earlier_fresh_ -= windows_[current_].fresh;
        windows_[current_] = {.peak = in_use};
      }
    }
    Record(in_use);
    Window& window = windows_[current_];
    window.peak = std::max(window.peak, latest_.peak);
    window.fresh += latest_.fresh;
    earlier_fresh_ += latest_.fresh;
    latest_ = {.peak = in_use};
  }

  Length Peak() const {
    Length peak = latest_.peak;
    for (const Window& window : windows_) peak = std::max(peak, window.peak);
    return peak;
  }

 private:
  struct Window {
    Length peak = Length(0);
    Length fresh = Length(0);
  };

  std::array<Window, kDemandWindows> windows_{};
  Window latest_;         // since the last Advance
  Length earlier_fresh_;  // in all windows
  size_t current_ = 0;
  int64_t window_start_ms_ = 0;
};

// RegretBudget: bounds the page faults on memory that was released and needed again within
// kRegretMs. Pure arithmetic: the caller brings the time.
//
// Rule. Time earns pages, at the rate at which page faults on all of them would take a fixed part
// of the time. A release spends pages. It gets them back when kRegretMs have passed without a page
// fault on them. If the program needs released memory sooner, the pages that it needs stay spent:
// releases stop until time has earned what the page faults cost. The budget starts empty, so the
// page faults of any time since the start take at most that part of it.
//
// Thread safety: none.
class RegretBudget {
 public:
  // Moves the time on to `now_ms`; a time before the last one changes nothing. The budget earns and
  // holds `factor` times the pages of factor 1.
  void Advance(int64_t now_ms, double factor) {
    if (now_ms_ == kNever) window_start_ms_ = now_ms_ = now_ms;
    if (now_ms <= now_ms_) return;
    const double seconds = static_cast<double>(now_ms - now_ms_) / 1000;
    now_ms_ = now_ms;
    const int64_t window_ms = now_ms - window_start_ms_;
    if (window_ms >= kRegretMs) {
      pages_ += earlier_;
      earlier_ = std::exchange(latest_, 0);
      // The last release was within the first kRegretMs of the window.
      if (window_ms >= 2 * kRegretMs) pages_ += std::exchange(earlier_, 0);
      window_start_ms_ = now_ms;
    }
    pages_ += factor * Pages(kRegretBytesPerSecond) * seconds;
    pages_ = std::min(pages_, factor * Pages(kMaxBytesAtRisk) - earlier_ - latest_);
  }
  // How many pages may be released now.
  Length left() const { return Length(static_cast<size_t>(std::max(pages_, 0.0))); }
  // `n` pages are released.
  void Spend(Length n) {
    pages_ -= static_cast<double>(n.pages());
    latest_ += static_cast<double>(n.pages());
  }
  // The program needs `n` pages that are not backed.
  void Fault(Length n) {
    auto pages = static_cast<double>(n.pages());
    for (double* const window : {&latest_, &earlier_}) {
      const double needed = std::min(*window, pages);
      *window -= needed;
      pages -= needed;
    }
  }

 private:
  static constexpr int64_t kNever = -1;
  static constexpr double Pages(size_t bytes) { return static_cast<double>(bytes >> kPageShift); }

  // Below zero where more was released than was left.
  double pages_ = 0;
  // Pages released since window_start_ms_, and in the window before, less those that the program
  // needed again. A window ends at the first call with a time after its kRegretMs.
  double latest_ = 0;
  double earlier_ = 0;
  int64_t window_start_ms_ = kNever;
  int64_t now_ms_ = kNever;
};

// ReleasePolicy: how much free memory to release, and when. It only decides: the caller provides
// the time and the state of the heap, and releases.
//
// Rule. The heap keeps the memory that the peak demand of the last seconds needed: a program that
// used it a moment ago is likely to need it again. Free memory beyond that is released, as far as
// RegretBudget allows: page faults on memory that the program needs again at once may take only a
// small part of its time. The rate multiplies the budget. It also decides how long the last seconds
// are: kReleaseMemoryMs at rates up to 1, less above. Rate 0 never releases. Why idle memory, and
// not all that a program has just freed: docs/decisions/0053.
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

  // See DemandHistory::Record. `now_ms`: 0 if it is not known.
  void Demand(Length in_use, Length unfit = Length(0), Length fresh = Length(0),
              int64_t now_ms = 0) {
    history_.Record(in_use, unfit, fresh);
    if (fresh == Length(0)) return;
    if (now_ms > 0) budget_.Advance(now_ms, rate_);
    budget_.Fault(fresh);
  }

  // `n` pages were freed. If it is time to decide, returns the pages that were freed since the last
  // time; else 0.
  Length PagesFreed(Length n) {
    if (rate_ <= 0) return Length(0);
    freed_ += n;
    const double look_every = static_cast<double>(kLookEvery.pages());
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
    return {length, excess.pages() > state.in_use.pages() / kSplitPart};
  }

  // `n` more pages were released than decided, since hugepages are released whole. Later decisions
  // release less.
  void ReleasedMore(Length n) { budget_.Spend(n); }

 private:
  int64_t WindowMs() const {
    const double memory = static_cast<double>(kReleaseMemoryMs) / std::max(rate_, 1.0);
    return std::max<int64_t>(1, static_cast<int64_t>(memory) / int64_t{kDemandWindows});
  }

  double rate_ = kDefaultReleaseRate;
  DemandHistory history_;
  RegretBudget budget_;
  Length freed_;
};

}  // namespace tcmalloc
