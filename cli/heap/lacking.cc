// SPDX-License-Identifier: BSD-3-Clause
#include "heap/lacking.h"

#include <algorithm>

namespace cli {

Lacking LackingMemory(const HeapObjects& objects, const std::vector<Mapping>& mappings,
                      const std::function<bool(Address)>& is_unwritten) {
  Lacking lacking;
  objects.ForEachSpan([&](const SpanInfo& span) {
    if (span.num_objects == 0) return;
    const Address end = span.start + span.bytes;
    Address at = span.start;
    const auto lack = [&](Address from, Address to) {
      if (from >= to) return;
      if (lacking.bytes == 0 || from < lacking.first) lacking.first = from;
      lacking.bytes += to - from;
    };
    for (auto mapping = std::upper_bound(
             mappings.begin(), mappings.end(), at,
             [](Address address, const Mapping& each) { return address < each.end; });
         mapping != mappings.end() && mapping->start < end; ++mapping) {
      if (!mapping->readable && !is_unwritten(std::max(at, mapping->start))) continue;
      lack(at, mapping->start);
      at = std::max(at, std::min(mapping->end, end));
    }
    lack(at, end);
  });
  return lacking;
}

}  // namespace cli
