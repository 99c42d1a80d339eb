// SPDX-License-Identifier: BSD-3-Clause
// ReleasePace: when freeing pages should give memory back to the system. A pure decision; it
// releases nothing.
//
// Rule. After a slice of r pages went back, the next goes after 1000 / rate * r pages were freed,
// at most kMaxWait; when there was nothing to give, after kIdleWait. Rate 0 never releases, 1 is
// the default, 10 is eager. Source: the rate's documented meaning and constants in the TCMalloc
// document ("tcmalloc_release_rate", reasonable values 0 to 10).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace tcmalloc {

class ReleasePace {
 public:
  static constexpr double kDefaultRate = 1.0;
  static constexpr double kMaxRate = 1000;
  static constexpr int64_t kMaxWait = int64_t{1} << 20;
  static constexpr int64_t kIdleWait = int64_t{1} << 18;

  double rate() const { return rate_; }
  void SetRate(double rate) {
    rate_ = rate;
    // A raised rate must not wait for the end of a long pause that the old one had ordered.
    pages_left_ = 0;
  }

  // `n` pages were freed. True when it is time to give some back.
  bool PagesFreed(Length n) {
    if (rate_ <= 0) return false;
    pages_left_ -= static_cast<int64_t>(n.pages());
    return pages_left_ < 0;
  }

  // What came of it.
  void Released(Length n) {
    if (n == Length(0)) {
      pages_left_ = kIdleWait;
      return;
    }
    const double wait = 1000.0 / rate_ * static_cast<double>(n.pages());
    pages_left_ = wait > static_cast<double>(kMaxWait) ? kMaxWait : static_cast<int64_t>(wait);
  }

 private:
  double rate_ = kDefaultRate;
  int64_t pages_left_ = 0;
};

}  // namespace tcmalloc
