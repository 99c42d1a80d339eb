// SPDX-License-Identifier: BSD-3-Clause
#include "image/modules.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string_view>

namespace cli {
namespace {

// Upper bounds: no file has more.
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

namespace {

// Upper bounds: no file has more.
constexpr size_t kMostProgramHeaders = 256;
constexpr size_t kMostModuleNoteBytes = size_t{64} << 10;
constexpr Address kSmallestPage = 4096;
constexpr std::string_view kDeleted = " (deleted)";

template <typename FileHeader, typename ProgramHeader>
void ReadHeaders(Image& image, Module* module) {
  FileHeader file;
  if (!image.ReadValue(module->start, &file) || file.e_phentsize != sizeof(ProgramHeader) ||
      file.e_phnum > kMostProgramHeaders) {
    return;
  }
  std::vector<ProgramHeader> headers(file.e_phnum);
  const size_t bytes = headers.size() * sizeof(ProgramHeader);
  if (!image.Read(module->start + file.e_phoff, headers.data(), bytes)) return;
  module->head.resize(sizeof(file) + bytes);
  memcpy(module->head.data(), &file, sizeof(file));
  if (bytes > 0) memcpy(module->head.data() + sizeof(file), headers.data(), bytes);
  // Addresses in the headers are relative to where the first segment would be without relocation.
  module->bias = module->start;
  for (const ProgramHeader& header : headers) {
    if (header.p_type == PT_LOAD && header.p_offset == 0) {
      module->bias = module->start - header.p_vaddr;
    }
  }
  for (const ProgramHeader& header : headers) {
    if (header.p_type != PT_LOAD) continue;
    const Address end = module->bias + header.p_vaddr + header.p_memsz;
    module->end = std::max(module->end, (end + kSmallestPage - 1) / kSmallestPage * kSmallestPage);
  }
  size_t left = kMostModuleNoteBytes;
  for (const ProgramHeader& header : headers) {
    if (header.p_type != PT_NOTE || header.p_filesz > left) continue;
    left -= header.p_filesz;
    std::vector<char> notes(header.p_filesz);
    if (!notes.empty() && image.Read(module->bias + header.p_vaddr, notes.data(), notes.size()) &&
        module->build_id.empty()) {
      module->build_id = BuildIdIn(notes);
    }
  }
}

template <typename FileHeader, typename ProgramHeader>
ThreadStorage ThreadStorageIn(const Module& module) {
  for (size_t at = sizeof(FileHeader); at + sizeof(ProgramHeader) <= module.head.size();
       at += sizeof(ProgramHeader)) {
    ProgramHeader header;
    memcpy(&header, &module.head[at], sizeof(header));
    // An upper bound: no file has more.
    constexpr uint64_t kMost = uint64_t{1} << 30;
    if (header.p_type != PT_TLS || header.p_memsz > kMost || header.p_align > kMost) continue;
    return {.bytes = header.p_memsz, .alignment = std::max<uint64_t>(header.p_align, 1)};
  }
  return {};
}

template <typename FileHeader, typename ProgramHeader>
std::vector<LoadedPart> LoadedParts(const Module& module) {
  std::vector<LoadedPart> parts;
  for (size_t at = sizeof(FileHeader); at + sizeof(ProgramHeader) <= module.head.size();
       at += sizeof(ProgramHeader)) {
    ProgramHeader header;
    memcpy(&header, &module.head[at], sizeof(header));
    const Address start = module.bias + header.p_vaddr;
    if (header.p_type != PT_LOAD || start + header.p_memsz < start) continue;
    parts.push_back({.start = start,
                     .file_bytes = std::min<uint64_t>(header.p_filesz, header.p_memsz),
                     .memory_bytes = header.p_memsz,
                     .file_offset = header.p_offset,
                     .writable = (header.p_flags & PF_W) != 0,
                     .executable = (header.p_flags & PF_X) != 0});
  }
  return parts;
}

}  // namespace

std::vector<Mapping> ModuleMappings(Image& image) {
  std::vector<Mapping> mappings = image.Mappings();
  std::set<std::string> with_code;
  for (const Mapping& mapping : mappings) {
    if (mapping.executable) with_code.insert(mapping.name);
  }
  std::erase_if(mappings, [&](const Mapping& mapping) {
    if (mapping.shared || mapping.name.empty() || mapping.name[0] == '[') return true;
    return !with_code.contains(mapping.name) &&
           image.PartsInMemory(mapping.start, mapping.start + 1).empty();
  });
  return mappings;
}

std::vector<Module> ReadModules(Image& image) {
  std::vector<Module> modules;
  std::string name;  // of the last module's mapping
  for (const Mapping& mapping : ModuleMappings(image)) {
    if (!mapping.readable || mapping.file_offset != 0 || mapping.name.empty() ||
        mapping.name[0] != '/') {
      continue;
    }
    // Segments that share a page of the file map it twice.
    if (!modules.empty() && mapping.name == name && mapping.start < modules.back().end) continue;
    unsigned char identity[EI_NIDENT];
    if (!image.ReadValue(mapping.start, &identity) || memcmp(identity, ELFMAG, SELFMAG) != 0) {
      continue;
    }
    Module module{.start = mapping.start, .end = mapping.end, .path = mapping.name};
    if (module.path.ends_with(kDeleted)) {
      module.deleted = true;
      module.path.resize(module.path.size() - kDeleted.size());
    }
    if (identity[EI_CLASS] == ELFCLASS64) {
      ReadHeaders<Elf64_Ehdr, Elf64_Phdr>(image, &module);
    } else {
      ReadHeaders<Elf32_Ehdr, Elf32_Phdr>(image, &module);
    }
    if (module.head.empty()) continue;
    name = mapping.name;
    modules.push_back(std::move(module));
  }
  return modules;
}

namespace {

bool IsWide(const Module& module) {
  return module.head.size() > EI_CLASS && module.head[EI_CLASS] == ELFCLASS64;
}

}  // namespace

ThreadStorage ThreadStorageOf(const Module& module) {
  return IsWide(module) ? ThreadStorageIn<Elf64_Ehdr, Elf64_Phdr>(module)
                        : ThreadStorageIn<Elf32_Ehdr, Elf32_Phdr>(module);
}

std::vector<LoadedPart> LoadedPartsOf(const Module& module) {
  return IsWide(module) ? LoadedParts<Elf64_Ehdr, Elf64_Phdr>(module)
                        : LoadedParts<Elf32_Ehdr, Elf32_Phdr>(module);
}

const Module* FindModule(const std::vector<Module>& modules, Address address) {
  const auto after =
      std::upper_bound(modules.begin(), modules.end(), address,
                       [](Address value, const Module& module) { return value < module.start; });
  if (after == modules.begin()) return nullptr;
  const Module& module = *std::prev(after);
  return address < module.end ? &module : nullptr;
}

}  // namespace cli
