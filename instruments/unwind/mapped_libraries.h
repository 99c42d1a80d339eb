// SPDX-License-Identifier: BSD-3-Clause
// Names for addresses of code: the files that are mapped as code, and the functions in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "instruments/unwind/elf_image.h"
#include "os/memory/mapped_array.h"

namespace tcmalloc {

// MappedLibraries: the files mapped as code in the process, by which a reader of a profile finds
// names for addresses. They are read from /proc/self/maps and from the images themselves, not from
// the dynamic linker, whose lock another thread may hold. Empty if /proc is missing.
//
// Thread safety: none; other threads may load and unload libraries meanwhile. Cost: a millisecond
// per thousand mappings; memory for the file's text.

// Executable memory.
struct MappedLibrary {
  uintptr_t start = 0;
  uintptr_t end = 0;
  uint64_t file_offset = 0;
  // A path, or the system's name, for example "[vdso]". Never empty.
  std::string_view name;
  // True if the image has been read. If not, an address minus the bias is an offset in the file.
  bool is_image = false;
  // The address at which the image's first byte is mapped.
  uintptr_t image_start = 0;
  ElfImage image;
};

class MappedLibraries {
 public:
  // Reads the image that starts at `start`; false when there is none.
  using ImageReader = bool (*)(uintptr_t start, uintptr_t limit, ElfImage* image);

  explicit MappedLibraries(VirtualMemory& vm) : text_(vm), libraries_(vm) {}

  // Reads the libraries of this process. False when there is no memory; then some libraries are
  // missing.
  [[nodiscard]] bool Read();

  // Adds the libraries that `maps` lists, text in the format of /proc/self/maps, which outlives
  // this. Skips malformed lines. False when there is no memory.
  [[nodiscard]] bool Parse(std::string_view maps, ImageReader read_image);

  // The library that contains `address`, or null.
  const MappedLibrary* Find(uintptr_t address) const;

  // Sorted by address.
  const MappedLibrary* begin() const { return libraries_.begin(); }
  const MappedLibrary* end() const { return libraries_.end(); }

 private:
  MappedArray<char> text_;
  MappedArray<MappedLibrary> libraries_;
};

// FunctionNames: the functions that contain given addresses of code, for reports that people read.
// Add all addresses, then call Resolve: it reads each library's symbols once.
//
// Thread safety: none. Uses only memory from the OS. Cost: some milliseconds for a library with
// 100,000 symbols.
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

// Writes a line for each frame to stderr, indented, as FunctionNames does; without `with_names`, as
// numbers. With it, reads /proc/self/maps and the symbols of each file. Requires: no
// lock is held. Cost: some milliseconds, in memory from the system.
void WriteStackToStderr(const uintptr_t* frames, size_t depth, bool with_names, VirtualMemory& vm);

}  // namespace tcmalloc
