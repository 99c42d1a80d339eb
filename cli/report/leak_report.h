// SPDX-License-Identifier: BSD-3-Clause
// A search for leaks as text and as JSON: the same facts as the library's own reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heap/leak_search.h"
#include "image/image.h"
#include "image/symbolizer.h"

namespace cli {

// Leaked objects of one call site; if the stack is unknown, those of one size whose spans have
// about the same age.
struct LeakGroup {
  std::vector<Address> frames;          // return addresses, innermost first; empty: unknown
  uint64_t object_bytes = 0;            // of each; 0 if there is a stack
  size_t age = 0;                       // index of a bucket (formats/marker/sampled_sites.h)
  std::vector<Address> nearest_frames;  // a hint; empty if there is none
  uint64_t objects = 0;
  uint64_t bytes = 0;
  uint64_t direct_objects = 0;
  uint64_t direct_bytes = 0;
  Address example = 0;
  std::vector<Address> addresses;
};

// Returns the groups, most leaked bytes first. Reads the samples of `target`.
std::vector<LeakGroup> GroupLeaks(const LeakSearch& search, const Target& target);

std::string LeakGroupsText(const std::vector<LeakGroup>& groups, size_t most,
                           const NameFrames& names);
// With `objects`, each group has its objects' addresses.
nlohmann::ordered_json LeakGroupsJson(const std::vector<LeakGroup>& groups, bool objects,
                                      const NameFrames& names);

}  // namespace cli
