// SPDX-License-Identifier: BSD-3-Clause
// FindRoot: the introspection root of this allocator in an image. It needs no file of the target:
// the ELF note is read from the target's memory, so that it works for deleted and replaced files,
// stripped programs and other mount namespaces. Where no note is mapped, writable memory is
// searched for the root's magic.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "image/image.h"

namespace cli {

// See IntrospectionRoot in the library's src/introspection/root.h; addresses are the target's.
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
};

enum class Search : bool {
  kNotes,       // a few reads for each mapped file
  kEverywhere,  // then all writable memory of files, and of the program's data
};

// The root at that address; nothing when there is none. Throws as FindRoot.
std::optional<Root> RootAt(Image& image, Address address);

// Nothing when the process does not run on this allocator. Throws BadImage when there is a root of
// a format that this program does not know.
std::optional<Root> FindRoot(Image& image, Search search = Search::kEverywhere);

}  // namespace cli
