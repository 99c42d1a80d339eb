// SPDX-License-Identifier: BSD-3-Clause
// A snapshot of a process: an ELF core file with a part of its memory, and the kernel's facts about
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "image/process.h"
#include "image/process_image.h"
#include "image/resident.h"
#include "image/thread_places.h"

namespace cli {

// SnapshotFacts: the kernel's facts about a process, saved with its memory in a snapshot, as JSON
// in an ELF note. A snapshot has data that a core file lacks: times, rights and use of the
// mappings.
struct SnapshotFacts {
  ProcessInfo info;
  int64_t time_ns = 0;  // since 1970
  // The time by the heap's clock.
  int clock = 0;
  int64_t now_ms = 0;
  Address root = 0;  // of the introspection root
  // True if it has all private memory, not only the records of the allocator.
  bool all_memory = false;
  // In the order of addresses.
  std::vector<MappingUse> mappings;
  std::vector<PageRun> pages;  // the present pages of these mappings
  std::vector<ThreadStack> stacks;
  uint64_t stack_bytes = 0;  // the most bytes of a thread's stack
  // The names of the threads whose registers the snapshot has.
  std::map<pid_t, std::string> thread_names;
  std::vector<JitFunction> jit_functions;  // in the order of addresses
};

std::string SnapshotText(const SnapshotFacts& facts);
// Throws BadImage when SnapshotText did not write the text.
SnapshotFacts ParseSnapshot(const std::string& text);

// Writes a snapshot: an ELF core file with a part of a process's memory, and the kernel's facts.

// Writes it as Output does; only the owner of the file may read it. `memory` has the parts of the
// copy, and the registers of its threads. `auxiliary_vector` is the contents of /proc/PID/auxv.
// Throws Failure.
void WriteSnapshot(const std::string& path, const CopiedImage& memory, const SnapshotFacts& facts,
                   size_t pointer_bytes, uint16_t machine, const std::string& auxiliary_vector);

}  // namespace cli
