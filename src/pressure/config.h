// SPDX-License-Identifier: BSD-3-Clause
// What TCMALLOC_PRESSURE says: which sources of memory pressure are listened to, and how much
// memory is how much pressure. A pure parser: nothing is opened or read here. Thread safety: none
// needed.
//
// The text is a list of words with commas between them:
//   auto               all sources that the process has, and a threshold for each level; so do "1",
//                      "yes", "true" and "on"
//   off                none; so do "0", "no", "false" and no text at all
//   level1=80%         the first level's threshold, level2 and level3 likewise: a percentage of the
//                      control group's limit where there is one, else of the heap's limit where
//                      there is one, else of the system's memory
//   level1=80%cgroup   of the control group's limit only; so %heap and %system
//   level1=3G          so many bytes of the process (K, M, G and T are powers of 1024)
//   psi=some:200ms/2s  a stall of that long within that window, or "off"
//   watch=off          not what the service manager asks for ($MEMORY_PRESSURE_WATCH), or "on"
//   thread=off         no thread of the library's: the program's loop listens; or "on"
//   interval=1s        the least time from one action to the next
// A later word prevails over an earlier one: "auto,level3=90%" is all of auto but for one
// threshold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/tuning.h"
#include "os/psi.h"

namespace tcmalloc {

// Level 1: what threads keep goes to the central lists. Level 2: what those keep as well, to the
// page heap. Level 3: from there to the system.
inline constexpr size_t kPressureLevels = 3;

struct PressureThreshold {
  // What `value` is: bytes of the process, or per cent of something.
  enum class Of : uint8_t { kNone, kBytes, kLimit, kCgroup, kHeap, kSystem };
  Of of = Of::kNone;
  uint64_t value = 0;

  friend constexpr bool operator==(const PressureThreshold&, const PressureThreshold&) = default;
};

struct PressureConfig {
  // Of auto.
  static constexpr PsiTrigger kAutoPsi = {false, kTuning.pressure.auto_stall_us,
                                          kTuning.pressure.auto_window_us};

  // levels[0] is level 1.
  std::array<PressureThreshold, kPressureLevels> levels{};
  bool psi = false;
  PsiTrigger psi_trigger = kAutoPsi;
  bool watch = false;
  bool thread = true;
  // Counters of the control group: memory.events.
  bool cgroup_events = false;
  uint32_t interval_ms = kTuning.pressure.default_interval_ms;

  bool enabled() const {
    bool any = psi || watch || cgroup_events;
    for (const PressureThreshold& level : levels) any |= level.of != PressureThreshold::Of::kNone;
    return any;
  }
};

// False when a word cannot be read: `*wrong` is that word then, and `*config` is not to be used.
// `text` may be what others wrote; the result refers to it.
bool ParsePressureConfig(std::string_view text, PressureConfig* config, std::string_view* wrong);

}  // namespace tcmalloc
