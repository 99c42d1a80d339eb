// SPDX-License-Identifier: BSD-3-Clause
// DemandHistory: the most that was in use at once during the last Tuning::Release::windows windows
// of time. Pure arithmetic: the caller brings the time. Thread safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"
#include "base/units.h"

namespace tcmalloc {

class DemandHistory {
 public:
  // `in_use` pages are in use. To be called when there are more than before.
  void Record(Length in_use) {
    if (in_use > recorded_) recorded_ = in_use;
  }

  // The time is `now_ms`, and `in_use` pages are in use. A peak that was recorded since the last
  // call counts as one of now: its time is not known, and it is safer to keep too much than too
  // little.
  void Advance(int64_t now_ms, int64_t window_ms, Length in_use) {
    int64_t passed = (now_ms - window_start_ms_) / window_ms;
    if (passed > 0) {
      window_start_ms_ += passed * window_ms;
      if (passed > int64_t{kTuning.release.windows}) passed = kTuning.release.windows;
      for (; passed > 0; --passed) {
        current_ = (current_ + 1) % kTuning.release.windows;
        peaks_[current_] = in_use;
      }
    }
    Record(in_use);
    if (recorded_ > peaks_[current_]) peaks_[current_] = recorded_;
    recorded_ = in_use;
  }

  Length Peak() const {
    Length peak = recorded_;
    for (const Length p : peaks_) {
      if (p > peak) peak = p;
    }
    return peak;
  }

 private:
  std::array<Length, kTuning.release.windows> peaks_{};
  // The most since the last Advance.
  Length recorded_;
  size_t current_ = 0;
  int64_t window_start_ms_ = 0;
};

}  // namespace tcmalloc
