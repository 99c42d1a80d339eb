// SPDX-License-Identifier: BSD-3-Clause
#include "heap/process_figures.h"

#include <fmt/format.h>

#include <ctime>

namespace cli {

ProcessFigures ReadProcessFigures(pid_t pid, const Target* target) {
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value() || info->is_zombie()) {
    throw Failure(fmt::format("process {} has ended", pid));
  }
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  ProcessFigures reading{.time_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000,
                         .info = *info};
  if (target != nullptr && target->HasHeap()) reading.stats = ReadStatistics(*target);
  return reading;
}

}  // namespace cli
