// SPDX-License-Identifier: BSD-3-Clause
// Reads the headers of the image of a program or library in this process's memory.
//
// It reads by a system call, which fails in cases in which a load would end the process: memory
// that looks like an image may belong to a truncated file, or may be other data. The dynamic linker
// is not called, since another thread may hold its lock. Allocates nothing; any thread. Changes
// errno.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// Copies `bytes` bytes of this process's memory. False when some are not readable, or the OS does
// not offer such a call.
bool ReadOwnMemory(uintptr_t address, void* to, size_t bytes);

struct ElfImage {
  // Address in memory minus address in the file, which is the address that nm prints and addr2line
  // takes.
  uintptr_t bias = 0;
  // The build id that the linker wrote into the file; 0 bytes if there is none.
  static constexpr size_t kMaxBuildIdBytes = 32;
  uint8_t build_id[kMaxBuildIdBytes] = {};
  size_t build_id_bytes = 0;
};

// Reads the headers of the image whose first byte is mapped at `start`. Reads nothing at or above
// `limit`, the end of the image's mappings. False when it is not an image for this machine. Cost:
// some ten system calls.
bool ReadElfImage(uintptr_t start, uintptr_t limit, ElfImage* image);

// The entry point of the main executable; 0 if it is unknown.
uintptr_t ProgramEntry();

}  // namespace tcmalloc
