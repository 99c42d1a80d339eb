// SPDX-License-Identifier: BSD-3-Clause
// The cost of a fork for a process, computed from the kernel's figures before the fork is made.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "image/process.h"
#include "image/resident.h"

namespace cli {

struct ForkCost {
  uint64_t shared_bytes = 0;      // private pages, shared with the fork until they are written
  uint64_t page_table_bytes = 0;  // copied while the process is stopped
  uint64_t committed_bytes = 0;   // the memory that the fork may write, for vm.overcommit_memory
  // How much more memory may be committed; nullopt if the kernel does not count it.
  std::optional<uint64_t> commit_room;
  // How much more memory the control group of the process, and those above it, may use; nullopt if
  // there is no limit.
  std::optional<uint64_t> group_room;
};

// Throws Failure when it must not be forked because another program handles its page faults.
ForkCost FindForkCost(const ProcessInfo& process, const std::vector<MappingUse>& uses);

// Returns lines: first the costs, then the dangers.
std::vector<std::string> ForkCostLines(const ProcessInfo& process, const ForkCost& cost);

// Returns the rest of the commit limit, from /proc/meminfo.
std::optional<uint64_t> ParseCommitRoom(std::istream& meminfo);

}  // namespace cli
