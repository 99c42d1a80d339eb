// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "report/diagnosis.h"
#include "report/sizes.h"

namespace cli {
namespace {

int64_t SignedDifference(uint64_t before, uint64_t after) {
  return static_cast<int64_t>(after) - static_cast<int64_t>(before);
}

}  // namespace

Growth GrowthOver(const std::vector<Statistics>& readings, double seconds) {
  const Statistics& before = readings.front();
  const Statistics& after = readings.back();
  Growth growth{
      .seconds = seconds,
      .in_use_bytes = SignedDifference(before.figure("in_use_bytes"), after.figure("in_use_bytes")),
      .steady = std::adjacent_find(readings.begin(), readings.end(),
                                   [](const Statistics& a, const Statistics& b) {
                                     return a.figure("in_use_bytes") >= b.figure("in_use_bytes");
                                   }) == readings.end()};
  const int64_t large =
      SignedDifference(before.figure("large_in_use_bytes"), after.figure("large_in_use_bytes"));
  growth.parts.push_back({"large objects", large});
  growth.parts.push_back({"guarded samples", SignedDifference(before.figure("guarded_bytes"),
                                                              after.figure("guarded_bytes"))});
  for (size_t c = 1; c < std::min(before.classes.size(), after.classes.size()); ++c) {
    const SizeClassStatistics& of_class = after.classes[c];
    const int64_t objects =
        SignedDifference(before.classes[c].in_use_objects, of_class.in_use_objects);
    growth.parts.push_back({fmt::format("objects of {} bytes", of_class.object_bytes),
                            objects * static_cast<int64_t>(of_class.object_bytes)});
  }
  std::erase_if(growth.parts, [](const Growth::Part& part) { return part.bytes <= 0; });
  std::stable_sort(growth.parts.begin(), growth.parts.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return growth;
}

std::string GrowthText(const Growth& growth) {
  if (growth.in_use_bytes == 0) return fmt::format("did not change in {:.1f} s", growth.seconds);
  const bool grew = growth.in_use_bytes > 0;
  const double per_second = std::abs(growth.bytes_per_second());
  std::string text = fmt::format("{} by {} in {:.1f} s ({}/s", grew ? "grew" : "shrank",
                                 Size(static_cast<uint64_t>(std::abs(growth.in_use_bytes))),
                                 growth.seconds, Size(static_cast<uint64_t>(per_second)));
  constexpr double kSecondsInAnHour = 3600;
  if (grew) {
    text += fmt::format(", {} in an hour at that rate",
                        Size(static_cast<uint64_t>(per_second * kSecondsInAnHour)));
  }
  return text + ")";
}

}  // namespace cli
