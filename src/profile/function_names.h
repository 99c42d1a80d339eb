// SPDX-License-Identifier: BSD-3-Clause
// FunctionNames: the functions that addresses of code lie in, for reports that people read. All
// addresses are added first, then looked up together: each library's symbols are read once.
//
// Thread safety: as an int. Memory from the system only. Cost: some milliseconds for a library with
// 100,000 symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "os/mapped_array.h"
#include "profile/mapped_libraries.h"

namespace tcmalloc {

class FunctionNames {
 public:
  explicit FunctionNames(VirtualMemory& vm) : entries_(vm), text_(vm) {}

  // False when there is no memory; then that address has no name.
  bool Add(uintptr_t address);
  // Once, when all have been added.
  void Resolve(const MappedLibraries& libraries);

  // The function that `address` lies in, as the linker knows it (C++ names are not demangled), and
  // how far from its start. False where it is not known.
  bool Find(uintptr_t address, std::string_view* name, uintptr_t* offset) const;

  // Writes an address of code: "function+0x12 (/lib/libfoo.so+0x1234)", without the brackets where
  // the function is not known, as a number where the file is not either. The offset in the file is
  // what addr2line takes.
  void Write(uintptr_t address, const MappedLibraries& libraries, TextWriter* out) const;
  // A line for each frame of a stack: `indent`, and what Write says of the call.
  void WriteFrames(const uintptr_t* frames, size_t depth, std::string_view indent,
                   const MappedLibraries& libraries, TextWriter* out) const;

 private:
  struct Entry {
    uintptr_t address;
    // Of its function; 0 where that is not known.
    uintptr_t start;
    size_t name_at;
    size_t name_bytes;
  };
  struct Search;

  const Entry* FindEntry(uintptr_t address) const;

  // By address, without duplicates, from Resolve on.
  MappedArray<Entry> entries_;
  MappedArray<char> text_;
};

}  // namespace tcmalloc
