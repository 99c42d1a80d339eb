// SPDX-License-Identifier: BSD-3-Clause
// PressureConfig: the parsed value of TCMALLOC_PRESSURE, with the sources of memory pressure that
// the library listens to, and the threshold of each level. A pure parser: it opens and reads
// nothing. Thread safety: none needed.
//
// The text is a list of words with commas between them:
//   auto               all sources that the process has, and a threshold for each level; so do "1",
//                      "yes", "true" and "on"
//   off                no source; so do "0", "no", "false" and an empty text
//   level1=80%         the threshold of level 1; also level2 and level3. A percentage of the
//   control
//                      group's limit if it has one, else of the heap's limit if it has one, else of
//                      the system's memory
//   level1=80%cgroup   of the control group's limit only; also %heap and %system
//   level1=3G          this many bytes of the process (K, M, G and T are powers of 1024)
//   psi=some:200ms/2s  a stall of 200 ms within 2 s, or "off"
//   watch=off          do not listen to the source of systemd ($MEMORY_PRESSURE_WATCH), or "on"
//   thread=off         no thread of the library: the program's event loop listens; or "on"
//   interval=1s        the minimum time between two actions
// A later word overrides an earlier one: "auto,level3=90%" is auto with another threshold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "instruments/pressure/psi.h"

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

}  // namespace tcmalloc
