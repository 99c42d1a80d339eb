// SPDX-License-Identifier: BSD-3-Clause
// Writes a snapshot: an ELF core file with a part of a process's memory, and the kernel's facts.
#pragma once

#include <string>

#include "image/copied_image.h"
#include "image/snapshot_facts.h"

namespace cli {

// Writes it as Output does; only the owner of the file may read it. `memory` has the parts of the
// copy, and the registers of its threads. `auxiliary_vector` is the contents of /proc/PID/auxv.
// Throws Failure.
void WriteSnapshot(const std::string& path, const CopiedImage& memory, const SnapshotFacts& facts,
                   size_t pointer_bytes, uint16_t machine, const std::string& auxiliary_vector);

}  // namespace cli
