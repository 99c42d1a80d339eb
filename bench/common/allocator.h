// SPDX-License-Identifier: BSD-3-Clause

// The allocators that a benchmark compares, and their libraries: this project's two, the C
// library's malloc, and the peers that Debian packages. Each is used through LD_PRELOAD by its
// absolute path: gperftools' library and ours share a soname, so a bare name could mean either.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcmalloc::bench {

struct Allocator {
  std::string name;
  bool ours = false;
  // True for the default set: if one of these allocators is missing, the comparison is not the
  // requested one.
  bool required = true;
  // The library to preload; empty if none is, so that the C library serves malloc.
  std::string preload;
  // The file that must have served malloc. It is empty if the allocator is not on this machine.
  std::string library;
  // A text that says where to get the library if it is missing.
  std::string source;

  bool missing() const { return library.empty(); }
};

// An argument NAME=PATH of the command line.
struct NamedLibrary {
  std::string name;
  std::string path;

  // Nothing if `text` does not have that form.
  static std::optional<NamedLibrary> Parse(std::string_view text);
};

// The file that defines the C library's malloc for this process.
std::string CLibrary();

// This program's file and the folder it is in.
std::string ThisProgram();
std::string ThisFolder();

// Returns this project's libraries first (those of the build tree that this program is in, or
// `ours` if that is not empty), then the C library, then Debian's peers, then `peers`.
std::vector<Allocator> FindAllocators(std::span<const NamedLibrary> ours,
                                      std::span<const NamedLibrary> peers);

}  // namespace tcmalloc::bench
