// SPDX-License-Identifier: BSD-3-Clause
// SnapshotFacts: what the kernel says about a process, saved beside its memory in a snapshot, as
// JSON in an ELF note. A snapshot has what a core lacks: times, rights and use of the mappings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/process.h"
#include "image/resident.h"
#include "image/stacks.h"

namespace cli {

struct SnapshotFacts {
  ProcessInfo info;
  int64_t time_ns = 0;  // since 1970
  // The time by the heap's clock.
  int clock = 0;
  int64_t now_ms = 0;
  Address root = 0;  // of the introspection root
  // In the order of addresses.
  std::vector<MappingUse> mappings;
  std::vector<PageRun> pages;  // the present pages of these mappings
  std::vector<ThreadStack> stacks;
  uint64_t stack_bytes = 0;  // at most, of a thread's stack
};

std::string SnapshotText(const SnapshotFacts& facts);
// Throws BadImage when the text is not one of SnapshotText.
SnapshotFacts ParseSnapshot(const std::string& text);

}  // namespace cli
