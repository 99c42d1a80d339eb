// SPDX-License-Identifier: BSD-3-Clause
// The notes of a core file: the process, and the files that it had mapped. They are untrusted:
// notes that cannot be read are left out.
#pragma once

#include <libelf.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "image/image.h"
#include "image/process.h"

namespace cli {

// The note of a snapshot, which has a SnapshotFacts as text. Debuggers look only at types, so this
// note has a type that they do not know.
inline constexpr char kSnapshotNoteName[] = "TCMalloc";
inline constexpr uint32_t kSnapshotNoteType = 0x54434d01;

struct CoreNotes {
  // Its threads are those whose registers the core has.
  ProcessInfo info;
  // The threads, if this program knows the machine's registers.
  std::vector<ThreadRegisters> threads;
  // The mapped files, in the order of addresses. Rights are not known.
  std::vector<Mapping> files;
  // An address in the program, from the auxiliary vector; 0 if unknown.
  Address program = 0;
  // The contents of a snapshot's own note; empty for a core file.
  std::string snapshot;
};

// `file_bytes` is the size of the file.
CoreNotes ReadCoreNotes(Elf* elf, size_t file_bytes);

}  // namespace cli
