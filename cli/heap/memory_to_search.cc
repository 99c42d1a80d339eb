// SPDX-License-Identifier: BSD-3-Clause
#include "heap/memory_to_search.h"

#include "heap/objects.h"
#include "heap/told_to_checker.h"

namespace cli {

std::vector<std::pair<Address, Address>> MemoryToSearch(const Target& target,
                                                        std::vector<Guard>* guards) {
  const HeapObjects objects(target);
  objects.AddGuards(guards);
  std::vector<std::pair<Address, Address>> ranges = objects.Regions();
  for (const tcmalloc::AddressRange& range : ReadToldToChecker(target, guards).roots) {
    ranges.emplace_back(range.start, range.end);
  }
  return ranges;
}

std::vector<std::pair<Address, Address>> MemoryToLeaveOut(const Target& target) {
  std::vector<tcmalloc::AddressRange> own;
  static_cast<void>(ReadMappedRanges(target, &own));
  std::vector<std::pair<Address, Address>> ranges;
  for (const tcmalloc::AddressRange& range : own) ranges.emplace_back(range.start, range.end);
  return ranges;
}

}  // namespace cli
