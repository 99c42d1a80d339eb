// SPDX-License-Identifier: BSD-3-Clause
// The functions of a program or library that is mapped in this process. They come from the full
// symbol table of its file, if the file is unchanged and not stripped, and from the dynamic symbol
// table in memory. The dynamic linker is not called, since another thread may hold its lock.
//
// Thread safety: any; another thread may unload the library meanwhile. Allocates nothing, changes
// errno. Cost: a read per 64 symbols.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

struct ElfFunctionVisitor {
  // Whether the caller wants the name of the function [start, end). Called for every function.
  bool (*wants)(void* context, uintptr_t start, uintptr_t end);
  // Receives the name as the linker knows it, perhaps cut off. Called only after `wants` returned
  // true.
  void (*name)(void* context, std::string_view name);
  void* context;
};

// Visits the functions of an image. `path` is the file of the image, whose first byte is mapped at
// `start`. Nothing at or above `limit`, the end of the image's mappings, is read. A function may be
// visited twice, or under several names.
void ForEachElfFunction(uintptr_t start, uintptr_t limit, const char* path,
                        const ElfFunctionVisitor& visitor);

}  // namespace tcmalloc
