// SPDX-License-Identifier: BSD-3-Clause
// The target's records of its allocations, if its leak checker records them (HEAPCHECK): the call
// site of each object, its requested size, and whether the allocating thread was disabled.
//
// Thread safety: none. Cost: a step for each slot of the target's table.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "heap/record.h"

namespace cli {

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

}  // namespace cli
