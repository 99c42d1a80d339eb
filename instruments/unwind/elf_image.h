// SPDX-License-Identifier: BSD-3-Clause
// What the image of a program or library in this process says of itself: its headers and its
// functions. The dynamic linker is not called, since another thread may hold its lock. Allocates
// nothing. Thread safety: any; another thread may unload the library meanwhile. Changes errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

// Copies `bytes` bytes of this process's memory. False when some are not readable, or the OS does
// not offer such a call. It reads by a system call, which fails in cases in which a load would end
// the process: memory that looks like an image may belong to a truncated file, or may be other
// data.
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

struct ElfFunctionVisitor {
  // Whether the caller wants the name of the function [start, end). Called for every function.
  bool (*wants)(void* context, uintptr_t start, uintptr_t end);
  // Receives the name as the linker knows it, perhaps cut off. Called only after `wants` returned
  // true.
  void (*name)(void* context, std::string_view name);
  void* context;
};

// Visits the functions of an image. They come from the full symbol table of its file, if the file
// is unchanged and not stripped, and from the dynamic symbol table in memory. Cost: a read per 64
// symbols. `path` is the file of the image, whose first byte is mapped at
// `start`. Nothing at or above `limit`, the end of the image's mappings, is read. A function may be
// visited twice, or under several names.
void ForEachElfFunction(uintptr_t start, uintptr_t limit, const char* path,
                        const ElfFunctionVisitor& visitor);

}  // namespace tcmalloc
