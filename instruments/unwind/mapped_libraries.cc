// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/mapped_libraries.h"

#include "os/files.h"
#include "os/memory_map.h"

namespace tcmalloc {
namespace {

constexpr size_t kFirstTextBytes = size_t{64} << 10;

// Appends the file's text, up to the first error. False when there is no memory.
bool ReadFile(const char* path, MappedArray<char>* text) {
  InputFile file(path);
  if (!file.is_open()) return true;
  bool has_room = text->Reserve(kFirstTextBytes);
  while (has_room) {
    const size_t n = file.Read(text->end(), text->capacity() - text->size());
    if (n == 0) break;
    text->Extend(n);
    if (text->size() == text->capacity()) has_room = text->Reserve(2 * text->size());
  }
  return has_room;
}

}  // namespace

bool MappedLibraries::Read() {
  return ReadFile("/proc/self/maps", &text_) && Parse({text_.data(), text_.size()}, &ReadElfImage);
}

bool MappedLibraries::Parse(std::string_view maps, ImageReader read_image) {
  // The mapping of the first byte of the current lines' file.
  MappingLine first;
  while (!maps.empty()) {
    size_t length = 0;
    while (length < maps.size() && maps[length] != '\n') ++length;
    MappingLine line;
    const bool well_formed = ParseMappingLine({maps.data(), length}, &line);
    maps.remove_prefix(length < maps.size() ? length + 1 : length);
    if (!well_formed || line.name.empty()) continue;
    if (line.file_offset == 0) first = line;
    if (!line.executable) continue;

    MappedLibrary library;
    library.start = line.start;
    library.end = line.end;
    library.file_offset = line.file_offset;
    library.name = line.name;
    library.image.bias = line.start - static_cast<uintptr_t>(line.file_offset);
    ElfImage image;
    const bool same_file = first.file == line.file && first.name == line.name;
    if (same_file && first.readable && read_image(first.start, line.end, &image)) {
      library.is_image = true;
      library.image_start = first.start;
      library.image = image;
    }
    if (!libraries_.Push(library)) return false;
  }
  return true;
}

const MappedLibrary* MappedLibraries::Find(uintptr_t address) const {
  size_t low = 0;
  size_t high = libraries_.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (libraries_[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == libraries_.size() || address < libraries_[low].start) return nullptr;
  return &libraries_[low];
}

}  // namespace tcmalloc
