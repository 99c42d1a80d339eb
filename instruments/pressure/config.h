// SPDX-License-Identifier: BSD-3-Clause
// What memory pressure causes: PressureConfig, the parsed value of TCMALLOC_PRESSURE, with the
// sources of memory pressure that the library listens to, and the threshold of each level; and
// PressurePolicy, which decides by it. Pure values: they open and read nothing. Thread safety: none
// needed.
//
// The text of the setting is a list of words with commas between them:
//   auto               all sources that the process has, and a threshold for each level; so do "1",
//                      "yes", "true" and "on"
//   off                no source; so do "0", "no", "false" and an empty text
//   level1=80%         the threshold of level 1; also level2 and level3. A percentage of the
//                      control group's limit if it has one, else of the heap's limit if it has one,
//                      else of the system's memory
//   level1=80%cgroup   of the control group's limit only; also %heap and %system
//   level1=3G          this many bytes of the process (K, M, G and T are powers of 1024)
//   psi=some:200ms/2s  a stall of 200 ms within 2 s, or "off"
//   watch=off          do not listen to the source of systemd ($MEMORY_PRESSURE_WATCH), or "on"
//   thread=off         no thread of the library: the program's event loop listens; or "on"
//   interval=1s        the minimum time between two actions
// A later word overrides an earlier one: "auto,level3=90%" is auto with another threshold.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "instruments/pressure/event_sources.h"
#include "page_heap/retention.h"

namespace tcmalloc {

// ActOnPressure in instruments/pressure/listening.cc has the action of each level.
inline constexpr size_t kPressureLevels = 3;

struct PressureThreshold {
  // The unit of `value`: bytes of the process, or a percentage of a limit or of memory.
  enum class Of : uint8_t { kNone, kBytes, kLimit, kCgroup, kHeap, kSystem };
  Of of = Of::kNone;
  uint64_t value = 0;

  friend constexpr bool operator==(const PressureThreshold&, const PressureThreshold&) = default;
};

// "auto": the thresholds of the levels, in percent of the limit. The last two leave a tenth of the
// memory for a level that frees too late, and a twentieth for the kernel. Operators who set such
// levels by hand use 70 % to 95 %.
inline constexpr uint64_t kAutoPercent[] = {80, 90, 95};
static_assert(kAutoPercent[0] < kAutoPercent[1] && kAutoPercent[1] < kAutoPercent[2]);
// "auto": PSI stalls of a tenth of the time, in the window that needs no privileges.
inline constexpr uint32_t kAutoStallUs = kUnprivilegedPsiWindowUs / 10;
// Default and maximum of the shortest time between two actions.
inline constexpr uint32_t kDefaultPressureIntervalMs = 1000;
inline constexpr uint64_t kMaxPressureIntervalMs = 3'600'000;

struct PressureConfig {
  // The trigger of "auto".
  static constexpr PsiTrigger kAutoPsi = {false, kAutoStallUs, kUnprivilegedPsiWindowUs};

  // levels[0] is level 1.
  std::array<PressureThreshold, kPressureLevels> levels{};
  bool psi = false;
  PsiTrigger psi_trigger = kAutoPsi;
  bool watch = false;
  bool thread = true;
  // The control group's counters, memory.events.
  bool cgroup_events = false;
  uint32_t interval_ms = kDefaultPressureIntervalMs;

  bool enabled() const {
    bool any = psi || watch || cgroup_events;
    for (const PressureThreshold& level : levels) any |= level.of != PressureThreshold::Of::kNone;
    return any;
  }
};

// False if a word is invalid: then `*wrong` is that word, and `*config` must not be used. `text`
// may be untrusted; `*wrong` points into it.
bool ParsePressureConfig(std::string_view text, PressureConfig* config, std::string_view* wrong);

// Decides when the library acts on memory pressure, and at which level. It only decides: the caller
// passes the time and the memory in use, acts, and reports the effect. Thread safety: none.
//
// Levels. A level is entered when the memory in use reaches its threshold, and left when it has
// fallen below the threshold by the part kNoticeablePart. In a level its action is repeated, since
// freed memory collects in caches again.
//
// Pace. An action costs time, and is wasted if it frees nothing: after one that freed little, the
// next waits several intervals. A higher level is due at once. systemd has no such pace and trims
// its heap for each event; a kernel that sent endless events kept it busy on a core.
//
// Events without a level (from systemd, PSI stalls) ask for the highest level, with the same pace.

// The memory in use to which a threshold refers, and the threshold, in bytes.
struct PressureReading {
  static constexpr uint64_t kNoThreshold = UINT64_MAX;
  uint64_t in_use = 0;
  uint64_t threshold = kNoThreshold;
};
// readings[0] is level 1.
using PressureReadings = std::array<PressureReading, kPressureLevels>;

// An action on memory pressure freed little if it freed less than this part of the memory in use; a
// level ends when the memory in use is below its threshold by this part of the threshold. Not
// measured.
inline constexpr uint64_t kNoticeablePart = Tuned(32, 4, 1024);
// How many intervals pass between an action on memory pressure that freed little and the next
// action. Not measured.
inline constexpr int64_t kWaitsAfterLittle = Tuned(8, 1, 64);
static_assert(kPressureHoldMs > kWaitsAfterLittle * kDefaultPressureIntervalMs);
// The time between two readings of the memory in use: kNearMs if it is near a threshold of memory
// pressure, else kFarMs. A program that grows by 1 GiB in a second reaches a threshold of 4 GiB
// from three quarters of it in one second. Not measured.
inline constexpr int64_t kNearMs = Tuned(100, 10, 1000);
inline constexpr int64_t kFarMs = Tuned(1000, kNearMs, 60'000);

// When an action of one kind is allowed again.
class PressurePace {
 public:
  explicit constexpr PressurePace(int64_t interval_ms) : interval_ms_(interval_ms) {}

  bool MayAct(int64_t now_ms) const { return now_ms >= next_ms_; }
  // The time until MayAct is true.
  int64_t RemainingMs(int64_t now_ms) const { return std::max<int64_t>(0, next_ms_ - now_ms); }

  // Records an action that freed `freed` bytes and left `in_use` in use.
  void Acted(int64_t now_ms, uint64_t freed, uint64_t in_use) {
    const bool little = freed < in_use / kNoticeablePart;
    next_ms_ = now_ms + (little ? kWaitsAfterLittle : 1) * interval_ms_;
  }

  // Forgets the last action, because there is a new reason to act.
  void Forget() { next_ms_ = 0; }

 private:
  int64_t interval_ms_;
  int64_t next_ms_ = 0;
};

class PressurePolicy {
 public:
  explicit constexpr PressurePolicy(int64_t interval_ms)
      : level_pace_(interval_ms), event_pace_(interval_ms) {}

  // Returns the level whose action is due, 0 for none.
  int DueByUse(int64_t now_ms, const PressureReadings& readings) {
    const int before = level_;
    level_ = LevelAfter(before, readings);
    if (level_ > before) level_pace_.Forget();
    return level_pace_.MayAct(now_ms) ? level_ : 0;
  }
  // Returns the level for an event without a level, 0 for none.
  int DueByEvent(int64_t now_ms) const {
    return event_pace_.MayAct(now_ms) ? static_cast<int>(kPressureLevels) : 0;
  }

  // Records the action: the bytes that it freed, and the memory now in use to which the level
  // refers.
  void ActedByUse(int64_t now_ms, uint64_t freed, uint64_t in_use) {
    level_pace_.Acted(now_ms, freed, in_use);
  }
  void ActedByEvent(int64_t now_ms, uint64_t freed, uint64_t in_use) {
    event_pace_.Acted(now_ms, freed, in_use);
  }

  // The level that is held.
  int level() const { return level_; }
  // How long sources stay disarmed after an event.
  int64_t EventsDisarmedMs(int64_t now_ms) const { return event_pace_.RemainingMs(now_ms); }
  // The time until the next reading; negative if no level has a threshold.
  static int64_t NextReadingMs(const PressureReadings& readings) {
    int64_t next = -1;
    for (const PressureReading& reading : readings) {
      if (reading.threshold == PressureReading::kNoThreshold) continue;
      const bool near = reading.in_use >= reading.threshold - reading.threshold / 4;
      if (near) return kNearMs;
      next = kFarMs;
    }
    return next;
  }

 private:
  // The highest level that is entered, or still held after `level`.
  static int LevelAfter(int level, const PressureReadings& readings) {
    for (int n = kPressureLevels; n > 0; --n) {
      const auto& [in_use, threshold] = readings[static_cast<size_t>(n) - 1];
      if (threshold == PressureReading::kNoThreshold) continue;
      const uint64_t margin = n <= level ? threshold / kNoticeablePart : 0;
      if (in_use > 0 && in_use >= threshold - margin) return n;
    }
    return 0;
  }

  int level_ = 0;
  PressurePace level_pace_;
  PressurePace event_pace_;
};

}  // namespace tcmalloc
