// SPDX-License-Identifier: BSD-3-Clause
// The facts that the target's leak checker has: what the program told it, and its records of
// allocations.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "formats/marker/root_map.h"
#include "formats/marker/searched_memory.h"
#include "heap/record.h"

namespace cli {

// The target's records of its allocations, if its leak checker records them (HEAPCHECK): the call
// site of each object, its requested size, and whether the allocating thread was disabled.
//
// Thread safety: none. Cost: a step for each slot of the target's table.

struct ObjectRecord {
  Address object = 0;
  Address site = 0;
  uint64_t requested_bytes = 0;
  // True if its thread was disabled, so that it must not be reported.
  bool ignored = false;
};

// Calls `f` for each recorded object, in any order, if the target records. Adds the locks. Throws
// BadImage.
void ForEachObjectRecord(const Target& target, std::vector<Guard>* guards,
                         const std::function<void(const ObjectRecord&)>& f);
// The return addresses of a site, innermost first. Throws BadImage.
std::vector<Address> ReadSite(const Target& target, Address site);

// The facts about a target, besides its objects, that a search for leaks needs: the objects and
// roots that the program registered with its leak checker, the layout of records of objects in
// flight, and the allocator's own memory.

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
