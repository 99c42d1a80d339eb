// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>

#include "report/diagnosis.h"

namespace cli {
namespace {

int64_t SignedDifference(uint64_t before, uint64_t after) {
  return static_cast<int64_t>(after) - static_cast<int64_t>(before);
}

}  // namespace

Growth GrowthBetween(const Statistics& before, const Statistics& after, double seconds) {
  Growth growth{.seconds = seconds,
                .in_use_bytes =
                    SignedDifference(before.figure("in_use_bytes"), after.figure("in_use_bytes"))};
  const int64_t large =
      SignedDifference(before.figure("large_in_use_bytes"), after.figure("large_in_use_bytes"));
  growth.parts.push_back({"large objects", large});
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

}  // namespace cli
