// SPDX-License-Identifier: BSD-3-Clause
#include "heap/search_roots.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace cli {
namespace {

using tcmalloc::RootKind;

constexpr std::pair<RootKind, Holder::Kind> kRootKinds[] = {
    {RootKind::kData, Holder::Kind::kData},
    {RootKind::kRegistered, Holder::Kind::kRegistered},
    {RootKind::kThreadData, Holder::Kind::kThreadData},
    {RootKind::kControlBlock, Holder::Kind::kControlBlock},
    {RootKind::kStack, Holder::Kind::kStack},
    {RootKind::kCLibraryHeap, Holder::Kind::kCLibraryHeap},
};

}  // namespace

std::vector<SearchRoot> ListRoots(const tcmalloc::RootMap& map, const ToldToChecker& told,
                                  const std::vector<ThreadRegisters>& threads) {
  std::vector<SearchRoot> roots;
  // Ranges may overlap; the parts that an earlier kind has are left out.
  std::map<Address, Address> listed;
  const auto add = [&](Holder::Kind kind, Address start, Address end) {
    auto next = listed.upper_bound(start);
    if (next != listed.begin()) start = std::max(start, std::prev(next)->second);
    while (start < end) {
      const Address part_end = next == listed.end() ? end : std::min(end, next->first);
      if (start < part_end) {
        roots.push_back({.kind = kind, .start = start, .end = part_end});
        listed.emplace_hint(next, start, part_end);
      }
      if (next == listed.end()) return;
      start = std::max(start, next->second);
      ++next;
    }
  };
  for (const auto& [root_kind, kind] : kRootKinds) {
    for (const tcmalloc::RootRange& range : map.always) {
      if (range.kind == root_kind) add(kind, range.start, range.end);
    }
    if (root_kind != RootKind::kStack) continue;
    for (const ThreadRegisters& thread : threads) {
      roots.push_back({.kind = Holder::Kind::kRegister, .thread = &thread});
    }
  }
  for (const Address stack : map.heap_stacks) {
    roots.push_back({.kind = Holder::Kind::kRunsOn, .start = stack, .end = stack});
  }
  for (const Address address : told.ignored) {
    roots.push_back({.kind = Holder::Kind::kIgnored, .start = address, .end = address});
  }
  return roots;
}

}  // namespace cli
