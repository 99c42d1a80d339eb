// SPDX-License-Identifier: BSD-3-Clause
// The facts about a target, besides its objects, that a search for leaks needs: the objects and
// roots that the program registered with its leak checker, the layout of records of objects in
// flight, and the allocator's own memory.
#pragma once

#include <vector>

#include "formats/marker/root_map.h"
#include "formats/marker/searched_memory.h"
#include "heap/record.h"

namespace cli {

struct ToldToChecker {
  std::vector<tcmalloc::AddressRange> roots;  // registered
  std::vector<Address> ignored;
  // The memory in which the library keeps these lists.
  std::vector<tcmalloc::AddressRange> records;
};

// Empty for the minimal library. Throws NotPublished for an older library that does not publish
// them.
ToldToChecker ReadToldToChecker(const Target& target, std::vector<Guard>* guards);

tcmalloc::InFlightLayout InFlightLayoutOf(const Target& target);

// Appends the memory that the library has mapped for itself. False when its list is not complete.
bool ReadMappedRanges(const Target& target, std::vector<tcmalloc::AddressRange>* ranges);

}  // namespace cli
