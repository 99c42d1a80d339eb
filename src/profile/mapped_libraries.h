// SPDX-License-Identifier: BSD-3-Clause
// MappedLibraries: which files lie where in the process's memory as code, by which a reader of a
// profile finds names for addresses. It is read from /proc/self/maps and from the images
// themselves; the dynamic linker, whose lock another thread may hold, is not asked. Where /proc is
// missing there are none.
//
// Thread safety: as an int; other threads may load and unload libraries meanwhile. Cost: a
// millisecond per thousand mappings; memory for the file's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/elf_image.h"
#include "os/mapped_array.h"

namespace tcmalloc {

// Executable memory.
struct MappedLibrary {
  uintptr_t start = 0;
  uintptr_t end = 0;
  uint64_t file_offset = 0;
  // A path, or the system's name for it, such as "[vdso]". Never empty.
  std::string_view name;
  // The image has been read; if not, its bias is as if it were loaded in one piece at 0.
  bool is_image = false;
  // Where the image's first byte is mapped.
  uintptr_t image_start = 0;
  ElfImage image;
};

class MappedLibraries {
 public:
  // Reads what the image that starts at `start` says; false when there is none.
  using ImageReader = bool (*)(uintptr_t start, uintptr_t limit, ElfImage* image);

  explicit MappedLibraries(VirtualMemory& vm) : text_(vm), libraries_(vm) {}

  // Reads those of this process. False when there is no memory; then it knows some, or none.
  [[nodiscard]] bool Read();

  // Adds what `maps`, text in the format of /proc/self/maps, lists. Lines that are malformed are
  // left out. `maps` outlives this. False as above.
  [[nodiscard]] bool Parse(std::string_view maps, ImageReader read_image);

  // The one that holds `address`; null: none does.
  const MappedLibrary* Find(uintptr_t address) const;

  // By address.
  const MappedLibrary* begin() const { return libraries_.begin(); }
  const MappedLibrary* end() const { return libraries_.end(); }

 private:
  MappedArray<char> text_;
  MappedArray<MappedLibrary> libraries_;
};

}  // namespace tcmalloc
