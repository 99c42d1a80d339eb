// SPDX-License-Identifier: BSD-3-Clause
// The roots from which a search for the referrers of an object begins: variables, stacks, registers
// and other memory that a program reaches without a pointer.
#pragma once

#include <vector>

#include "formats/marker/root_map.h"
#include "heap/holder.h"
#include "heap/told_to_checker.h"
#include "image/image.h"

namespace cli {

struct SearchRoot {
  Holder::Kind kind = Holder::Kind::kData;
  // For kIgnored and kRunsOn, both are the single pointer of the root.
  Address start = 0;
  Address end = 0;
  const ThreadRegisters* thread = nullptr;  // of kRegister
};

// Returns the roots in the order in which a search uses them: of two chains of the same length, it
// finds the one from the earlier root. No memory is listed twice. The threads outlive the list.
std::vector<SearchRoot> ListRoots(const tcmalloc::RootMap& map, const ToldToChecker& told,
                                  const std::vector<ThreadRegisters>& threads);

}  // namespace cli
