// SPDX-License-Identifier: BSD-3-Clause
// RegretBudget: bounds what a program pays for memory that was released and needed again within
// Tuning::Release::regret_ms. Pure arithmetic: the caller brings the time.
//
// Rule. Time earns pages, at the rate at which page faults on all of them would take a fixed part
// of the time. A release spends pages. It gets them back when regret_ms have passed without a page
// fault on them. If the program needs released memory sooner, the pages that it needs stay spent:
// releases stop until time has earned what the page faults cost. The budget starts empty, so the
// page faults of any time since the start take at most that part of it.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/tuning.h"
#include "base/units.h"

namespace tcmalloc {

class RegretBudget {
 public:
  // The time is `now_ms`; a time before the last one changes nothing. The budget earns and holds
  // `factor` times the pages of factor 1.
  void Advance(int64_t now_ms, double factor) {
    constexpr auto& kRules = kTuning.release;
    if (now_ms_ == kNever) window_start_ms_ = now_ms_ = now_ms;
    if (now_ms <= now_ms_) return;
    const double seconds = static_cast<double>(now_ms - now_ms_) / 1000;
    now_ms_ = now_ms;
    const int64_t window_ms = now_ms - window_start_ms_;
    if (window_ms >= kRules.regret_ms) {
      pages_ += earlier_;
      earlier_ = std::exchange(latest_, 0);
      // The last release was within the first regret_ms of the window.
      if (window_ms >= 2 * kRules.regret_ms) pages_ += std::exchange(earlier_, 0);
      window_start_ms_ = now_ms;
    }
    pages_ += factor * Pages(kRules.regret_bytes_per_second) * seconds;
    pages_ = std::min(pages_, factor * Pages(kRules.most_at_risk) - earlier_ - latest_);
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
  friend struct FieldTable;

  static constexpr int64_t kNever = -1;
  static constexpr double Pages(size_t bytes) { return static_cast<double>(bytes >> kPageShift); }

  // Below zero where more was released than was left.
  double pages_ = 0;
  // Pages released since window_start_ms_, and in the window before, less those that the program
  // needed again. A window ends when regret_ms have passed and the time is told.
  double latest_ = 0;
  double earlier_ = 0;
  int64_t window_start_ms_ = kNever;
  int64_t now_ms_ = kNever;
};

}  // namespace tcmalloc
