// SPDX-License-Identifier: BSD-3-Clause
#include "image/elf_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace cli {
namespace {

// No file has more than these.
constexpr size_t kMostSegments = 256;
constexpr size_t kMostSections = 65'536;
constexpr uint64_t kMostNoteSegmentBytes = uint64_t{64} << 10;
constexpr size_t kMostIdBytes = 64;

bool ReadAt(int descriptor, uint64_t offset, void* out, size_t bytes) {
  return bytes == 0 ||
         (static_cast<int64_t>(offset) >= 0 &&
          pread(descriptor, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes));
}

// Returns f of the file's header, with a segment and a section of the same word size for their
// types. Returns nothing if it is not an ELF file.
template <typename F>
auto WithHeader(int descriptor, F f) -> decltype(f(Elf64_Ehdr(), Elf64_Phdr(), Elf64_Shdr())) {
  unsigned char identity[EI_NIDENT] = {};
  if (!ReadAt(descriptor, 0, identity, sizeof(identity)) ||
      memcmp(identity, ELFMAG, SELFMAG) != 0) {
    return {};
  }
  if (identity[EI_CLASS] == ELFCLASS32) {
    Elf32_Ehdr header;
    if (!ReadAt(descriptor, 0, &header, sizeof(header))) return {};
    return f(header, Elf32_Phdr(), Elf32_Shdr());
  }
  Elf64_Ehdr header;
  if (!ReadAt(descriptor, 0, &header, sizeof(header))) return {};
  return f(header, Elf64_Phdr(), Elf64_Shdr());
}

// Returns the entries of a table of the file; none if they are not all there.
template <typename Entry>
std::vector<Entry> ReadTable(int descriptor, uint64_t offset, size_t entry_bytes, size_t count,
                             size_t most) {
  if (entry_bytes != sizeof(Entry) || count > most) return {};
  std::vector<Entry> entries(count);
  if (!ReadAt(descriptor, offset, entries.data(), count * sizeof(Entry))) return {};
  return entries;
}

}  // namespace

std::string BuildIdIn(const std::vector<char>& notes) {
  constexpr char kGnu[] = "GNU";
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;  // the same for both word sizes
    memcpy(&note, &notes[at], sizeof(note));
    const size_t name = at + sizeof(note);
    const size_t contents = name + (size_t{note.n_namesz} + 3) / 4 * 4;
    const size_t end = contents + (size_t{note.n_descsz} + 3) / 4 * 4;
    if (end > notes.size() || end <= at) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(kGnu) &&
        memcmp(&notes[name], kGnu, sizeof(kGnu)) == 0 && note.n_descsz <= kMostIdBytes) {
      std::string id;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        id += fmt::format("{:02x}", static_cast<unsigned char>(notes[contents + i]));
      }
      return id;
    }
    at = end;
  }
  return {};
}

std::string BuildIdOf(int descriptor) {
  return WithHeader(descriptor, [descriptor](const auto& file, auto segment, auto) -> std::string {
    using Segment = decltype(segment);
    for (const Segment& each : ReadTable<Segment>(descriptor, file.e_phoff, file.e_phentsize,
                                                  file.e_phnum, kMostSegments)) {
      if (each.p_type != PT_NOTE || each.p_filesz > kMostNoteSegmentBytes) continue;
      std::vector<char> notes(each.p_filesz);
      if (!ReadAt(descriptor, each.p_offset, notes.data(), notes.size())) continue;
      std::string id = BuildIdIn(notes);
      if (!id.empty()) return id;
    }
    return {};
  });
}

bool HasCode(int descriptor) {
  return WithHeader(descriptor, [descriptor](const auto& file, auto, auto section) {
    using Section = decltype(section);
    const std::vector<Section> sections =
        ReadTable<Section>(descriptor, file.e_shoff, file.e_shentsize, file.e_shnum, kMostSections);
    return std::none_of(sections.begin(), sections.end(), [](const Section& each) {
      return each.sh_type == SHT_NOBITS && (each.sh_flags & SHF_EXECINSTR) != 0;
    });
  });
}

}  // namespace cli
