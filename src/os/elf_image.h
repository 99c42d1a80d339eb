// SPDX-License-Identifier: BSD-3-Clause
// What the image of a program or library in this process's memory says about itself.
//
// It is read by a system call that fails where a load would end the process: what looks like an
// image may be a file that has been cut short, or none at all. The dynamic linker, whose lock
// another thread may hold, is not asked. Allocates nothing; any thread. Changes errno.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Copies `bytes` bytes of this process's memory. False when they are not all readable, or where
// the system does not offer that.
bool ReadOwnMemory(uintptr_t address, void* to, size_t bytes);

struct ElfImage {
  // Address in memory minus address in the file's own terms, which is what nm prints and addr2line
  // takes.
  uintptr_t bias = 0;
  // What the linker gave the file to tell it from others; none: 0 bytes.
  static constexpr size_t kMaxBuildIdBytes = 32;
  uint8_t build_id[kMaxBuildIdBytes] = {};
  size_t build_id_bytes = 0;
};

// Reads the headers of the image whose first byte is mapped at `start`. Nothing beyond `limit`, the
// end of the image's mappings, is read. False when it is none of this machine's. Cost: some ten
// system calls.
bool ReadElfImage(uintptr_t start, uintptr_t limit, ElfImage* image);

// Where the program begins to run, an address in the main executable; 0 where that is not known.
uintptr_t ProgramEntry();

}  // namespace tcmalloc
