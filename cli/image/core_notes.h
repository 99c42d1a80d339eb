// SPDX-License-Identifier: BSD-3-Clause
// The notes of a core file: which process it was, and which files it had mapped. They are
// untrusted: what cannot be read is left out.
#pragma once

#include <libelf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"
#include "image/process.h"

namespace cli {

// The note of a snapshot, which has a SnapshotFacts as text. Debuggers look at types alone: it has
// none of theirs.
inline constexpr char kSnapshotNoteName[] = "TCMalloc";
inline constexpr uint32_t kSnapshotNoteType = 0x54434d01;

struct CoreNotes {
  // Its threads are those whose registers the core has.
  ProcessInfo info;
  // The mapped files, in the order of addresses. Rights are not known.
  std::vector<Mapping> files;
  // An address in the program, of the auxiliary vector; 0: not known.
  Address program = 0;
  // The contents of a snapshot's own note; empty: a core.
  std::string snapshot;
};

// `file_bytes`: the size of the file.
CoreNotes ReadCoreNotes(Elf* elf, size_t file_bytes);

}  // namespace cli
