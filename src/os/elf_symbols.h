// SPDX-License-Identifier: BSD-3-Clause
// The functions of a program or library that is mapped in this process: of its file's full symbol
// table, where the file is still the one that was mapped and is not stripped, and of the dynamic
// symbol table in memory. The dynamic linker, whose lock another thread may hold, is not asked.
//
// Thread safety: any; another thread may unload the library meanwhile. Allocates nothing, changes
// errno. Cost: a read per 64 symbols.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc {

struct ElfFunctionVisitor {
  // Whether the name of the function [start, end) is of interest; called for every function.
  bool (*wants)(void* context, uintptr_t start, uintptr_t end);
  // Its name, as the linker knows it, which may be cut; only after `wants` was true.
  void (*name)(void* context, std::string_view name);
  void* context;
};

// `path` names the file of the image whose first byte is mapped at `start`; nothing beyond `limit`,
// the end of the image's mappings, is read. Functions may be visited twice, or under several names.
void ForEachElfFunction(uintptr_t start, uintptr_t limit, const char* path,
                        const ElfFunctionVisitor& visitor);

}  // namespace tcmalloc
