// SPDX-License-Identifier: BSD-3-Clause
// FindRoot: the introspection root of this allocator in an image. It needs no file of the target:
// the ELF note is read from the target's memory, so that it works for deleted and replaced files,
// stripped programs and other mount namespaces. If no note is mapped, the variables of the program
// and its libraries are searched for the root's magic, as far as they are in memory: a search does
// not make the target's memory grow.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "image/image.h"

namespace cli {

// See IntrospectionRoot in the library's instruments/introspection/root.h; addresses are the
// target's.
struct Root {
  Address address = 0;
  uint32_t format = 0;
  size_t pointer_bytes = 0;
  std::string version;
  Address layout = 0;
  uint64_t layout_bytes = 0;
  Address samples = 0;
  Address heap = 0;
  Address heap_exists = 0;
  Address page_map = 0;
  Address abort_line = 0;  // 0 for an older library, which does not keep it
  Address debug = 0;       // 0 for an older library, which has no debug version
};

enum class Search : bool {
  kNotes,       // a few reads for each mapped file
  kEverywhere,  // after that, the variables of the program and its libraries
};

// Returns the root at that address; nullopt when there is none. Throws as FindRoot.
std::optional<Root> RootAt(Image& image, Address address);

// Returns nullopt when the process does not run on this allocator. If there are several copies of
// the library, for example one in the program and a preloaded one, returns the first that has a
// heap. Throws BadImage when there is a root of a format that this program does not know.
std::optional<Root> FindRoot(Image& image, Search search = Search::kEverywhere);

// Returns the other copies of the library that have a heap, as far as they have notes.
std::vector<Root> OtherRootsWithHeap(Image& image, const Root& root);

}  // namespace cli
