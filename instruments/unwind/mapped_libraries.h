// SPDX-License-Identifier: BSD-3-Clause
// MappedLibraries: the files mapped as code in the process, by which a reader of a profile finds
// names for addresses. They are read from /proc/self/maps and from the images themselves, not from
// the dynamic linker, whose lock another thread may hold. Empty if /proc is missing.
//
// Thread safety: none; other threads may load and unload libraries meanwhile. Cost: a millisecond
// per thousand mappings; memory for the file's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "instruments/unwind/elf_image.h"
#include "os/memory/mapped_array.h"

namespace tcmalloc {

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

}  // namespace tcmalloc
