// SPDX-License-Identifier: BSD-3-Clause
// When something is done about memory pressure, and how much. Pure decisions: the caller brings the
// time and what is in use, acts, and says what came of it. Thread safety: none.
//
// Levels (NextMemoryLevel, page/memory_level.h, which also decides for the heap's own limits). A
// level is reached when what is in use comes to its threshold, and left when it has fallen by a
// part of that, Tuning::Pressure::margin_part, below. As long as it is held its action is repeated,
// since what is freed meanwhile lies in caches again.
//
// Pace. An action costs time, and one that frees nothing is a waste: after one that freed little
// the next waits twice as long, up to Tuning::Pressure::max_waits times the interval. The wait is
// over early when what is in use has grown meanwhile: then there may be something to be had again,
// and there is less time. Without that waiting, a kernel whose events never ended has kept a
// service manager that trimmed its own heap busy on a core.
//
// Events that carry no level (the service manager's, stalls) ask for all that can be done; they are
// paced in the same way.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"
#include "page/memory_level.h"
#include "pressure/config.h"

namespace tcmalloc {

// How much is in use of what a level's threshold is about, and the threshold, in bytes.
struct PressureReading {
  static constexpr uint64_t kNoThreshold = UINT64_MAX;
  uint64_t in_use = 0;
  uint64_t threshold = kNoThreshold;
};
// readings[0] is of level 1.
using PressureReadings = std::array<PressureReading, kPressureLevels>;

// When the next action of one kind may be.
class PressurePace {
 public:
  explicit constexpr PressurePace(int64_t interval_ms) : interval_ms_(interval_ms) {}

  bool MayAct(int64_t now_ms, uint64_t in_use) const {
    if (!acted_) return true;
    const int64_t since_ms = now_ms - acted_ms_;
    if (since_ms >= wait_ms_) return true;
    return since_ms >= std::min(kTuning.pressure.min_wait_ms, interval_ms_) && in_use > in_use_ &&
           in_use - in_use_ > in_use_ / kTuning.pressure.growth_part;
  }

  // An action has freed so much, and so much is in use now.
  void Acted(int64_t now_ms, uint64_t freed, uint64_t in_use) {
    const bool little = freed < in_use / kTuning.pressure.little_part || freed == 0;
    // What was asked for long after it could have been is no storm.
    const bool after_quiet = acted_ && now_ms - acted_ms_ >= 2 * wait_ms_;
    wait_ms_ = little && acted_ && !after_quiet
                   ? std::min(2 * wait_ms_, kTuning.pressure.max_waits * interval_ms_)
                   : interval_ms_;
    acted_ = true;
    acted_ms_ = now_ms;
    in_use_ = in_use;
  }

  // A new reason to act.
  void Forget() { acted_ = false; }

  int64_t wait_ms() const { return acted_ ? wait_ms_ : 0; }
  // Until MayAct holds without growth.
  int64_t RemainingMs(int64_t now_ms) const {
    return acted_ ? std::max<int64_t>(0, acted_ms_ + wait_ms_ - now_ms) : 0;
  }

 private:
  int64_t interval_ms_;
  bool acted_ = false;
  int64_t acted_ms_ = 0;
  int64_t wait_ms_ = 0;
  uint64_t in_use_ = 0;
};

class PressurePolicy {
 public:
  explicit constexpr PressurePolicy(int64_t interval_ms)
      : level_pace_(interval_ms), event_pace_(interval_ms) {}

  // The level whose action is due, 0 for none.
  int DueByUse(int64_t now_ms, const PressureReadings& readings) {
    const int before = level_;
    level_ = NextMemoryLevel(BoundsOf(readings), before);
    if (level_ > before) level_pace_.Forget();
    if (level_ == 0 || !level_pace_.MayAct(now_ms, InUse(readings, level_))) return 0;
    return level_;
  }
  // Of an event without a level; `in_use` of the process.
  int DueByEvent(int64_t now_ms, uint64_t in_use) const {
    return event_pace_.MayAct(now_ms, in_use) ? static_cast<int>(kPressureLevels) : 0;
  }

  // The action has freed so much; what is in use now is of what the level is about.
  void ActedByUse(int64_t now_ms, uint64_t freed, uint64_t in_use) {
    level_pace_.Acted(now_ms, freed, in_use);
  }
  void ActedByEvent(int64_t now_ms, uint64_t freed, uint64_t in_use) {
    event_pace_.Acted(now_ms, freed, in_use);
  }

  // The level that is held.
  int level() const { return level_; }
  // Until events are to be heard again, 0 for now.
  int64_t EventsDeafMs(int64_t now_ms) const { return event_pace_.RemainingMs(now_ms); }
  // Until the next readings; negative where no level has a threshold.
  static int64_t NextReadingMs(const PressureReadings& readings) {
    int64_t next = -1;
    for (const PressureReading& reading : readings) {
      if (reading.threshold == PressureReading::kNoThreshold) continue;
      const bool near = reading.in_use >= reading.threshold - reading.threshold / 4;
      if (near) return kTuning.pressure.near_ms;
      next = kTuning.pressure.far_ms;
    }
    return next;
  }

 private:
  static std::array<MemoryBound, kPressureLevels> BoundsOf(const PressureReadings& readings) {
    std::array<MemoryBound, kPressureLevels> bounds;
    for (size_t i = 0; i < kPressureLevels; ++i) {
      const auto& [in_use, threshold] = readings[i];
      if (threshold == PressureReading::kNoThreshold) continue;
      // What comes to the threshold is above all that is below it.
      bounds[i] = {.limit = std::max<uint64_t>(threshold, 1) - 1,
                   .in_use = in_use,
                   .margin = threshold / kTuning.pressure.margin_part};
    }
    return bounds;
  }
  static uint64_t InUse(const PressureReadings& readings, int level) {
    return readings[static_cast<size_t>(level) - 1].in_use;
  }

  int level_ = 0;
  PressurePace level_pace_;
  PressurePace event_pace_;
};

}  // namespace tcmalloc
