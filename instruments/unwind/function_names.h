// SPDX-License-Identifier: BSD-3-Clause
// FunctionNames: the functions that contain given addresses of code, for reports that people read.
// Add all addresses, then call Resolve: it reads each library's symbols once.
//
// Thread safety: none. Uses only memory from the OS. Cost: some milliseconds for a library with
// 100,000 symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "instruments/unwind/mapped_libraries.h"
#include "os/memory/mapped_array.h"

namespace tcmalloc {

class FunctionNames {
 public:
  explicit FunctionNames(VirtualMemory& vm) : entries_(vm), text_(vm) {}

  // False when there is no memory; then the address has no name.
  bool Add(uintptr_t address);
  // Called once, after the last Add.
  void Resolve(const MappedLibraries& libraries);

  // Finds the linker's name of the function that contains `address` (C++ names are not demangled),
  // and the offset from its start. False when it is unknown.
  bool Find(uintptr_t address, std::string_view* name, uintptr_t* offset) const;

  // Writes an address of code: "function+0x12 (/lib/libfoo.so+0x1234)"; without the brackets if the
  // function is unknown; as a number if the file is unknown too. addr2line takes the offset in the
  // file.
  void Write(uintptr_t address, const MappedLibraries& libraries, TextWriter* out) const;
  // Writes a line for each frame of a stack: `indent`, then the call as Write does.
  void WriteFrames(const uintptr_t* frames, size_t depth, std::string_view indent,
                   const MappedLibraries& libraries, TextWriter* out) const;

 private:
  struct Entry {
    uintptr_t address;
    // The start of its function; 0 if unknown.
    uintptr_t start;
    size_t name_at;
    size_t name_bytes;
  };
  struct Search;

  const Entry* FindEntry(uintptr_t address) const;

  // After Resolve: sorted by address, without duplicates.
  MappedArray<Entry> entries_;
  MappedArray<char> text_;
};

}  // namespace tcmalloc
