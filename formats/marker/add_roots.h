// SPDX-License-Identifier: BSD-3-Clause
// Adds the roots of a RootMap to a marker: decides which pages of a root are searched, and how.
//
// Thread safety: none. Cost: the time in which Memory finds backed pages.
#pragma once

#include "base/address_range.h"
#include "formats/marker/root_map.h"
#include "formats/marker/wanted_pages.h"

namespace tcmalloc {

// Calls f(const RootRange&) for the parts of a root that were touched, until f returns false; then
// returns false. Data that was not written since it was mapped points to no object.
template <typename Memory, typename F>
bool ForEachTouchedPart(Memory& memory, const RootRange& root, F f) {
  const bool is_data = root.kind == RootKind::kData || root.kind == RootKind::kCLibraryHeap;
  AddressRange rest = {root.start, root.end};
  AddressRange part;
  while (memory.TakeFirst(&rest, is_data ? WantedPages::kWritten : WantedPages::kAny, &part)) {
    if (!f(RootRange{part.start, part.end, root.kind})) return false;
  }
  return true;
}

struct RootChoice {
  bool from_globals = true;
  bool from_threads = true;
};

// False when there is no memory.
template <typename Marker>
[[nodiscard]] bool AddRoot(Marker& marker, const RootRange& root, RootChoice choice) {
  switch (root.kind) {
    case RootKind::kStack:
      return !choice.from_threads || marker.AddStack(root.start, root.end);
    case RootKind::kThreadData:
    case RootKind::kControlBlock:
      return !choice.from_threads || marker.AddRange(root.start, root.end);
    case RootKind::kData:
    case RootKind::kCLibraryHeap:
      return !choice.from_globals || marker.AddRange(root.start, root.end);
    case RootKind::kRegistered:
      return marker.AddRange(root.start, root.end, Marker::Pages::kAll);
    case RootKind::kConditional:
      return marker.AddConditional(root.start, root.end);
  }
  return true;
}

}  // namespace tcmalloc
