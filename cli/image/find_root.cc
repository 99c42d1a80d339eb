// SPDX-License-Identifier: BSD-3-Clause
#include "image/find_root.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "image/modules.h"
#include "image/text.h"

namespace cli {
namespace {

constexpr char kMagic[] = "TCMROOT\n";
constexpr size_t kMagicBytes = 8;
constexpr uint32_t kRootFormat = 1;
constexpr size_t kHeadBytes = kMagicBytes + 4 + 2 + 2 + 16;
constexpr size_t kPointers = 9;
constexpr size_t kPointersOfFirstVersion = 7;
constexpr char kNoteName[] = "TCMalloc";
// Upper bounds: no file has more.
constexpr size_t kMaxProgramHeaders = 256;
constexpr size_t kMaxNoteBytes = size_t{1} << 20;
// The most bytes of headers and notes that are read of one process: 65,000 files have fewer.
constexpr size_t kMostHeadBytes = size_t{64} << 20;
// A note that leads to no root counts as so many bytes, which take as long to read.
constexpr size_t kFailedRootBytes = 4096;
// The most memory that is searched for the magic: the variables of the largest programs have fewer
// bytes.
constexpr Address kMostSearchedBytes = Address{256} << 20;

}  // namespace

std::optional<Root> RootAt(Image& image, Address address) {
  struct Head {
    char magic[kMagicBytes];
    uint32_t format;
    uint16_t pointer_bytes;
    uint16_t root_bytes;
    char version[16];
  } head;
  static_assert(sizeof(Head) == kHeadBytes);
  if (!image.ReadValue(address, &head) || memcmp(head.magic, kMagic, kMagicBytes) != 0) {
    return std::nullopt;
  }
  if (head.pointer_bytes != 4 && head.pointer_bytes != 8) return std::nullopt;
  uint64_t pointers[kPointers] = {};
  const size_t members = (size_t{head.root_bytes} - std::min<size_t>(head.root_bytes, kHeadBytes)) /
                         head.pointer_bytes;
  const size_t read = std::clamp(members, kPointersOfFirstVersion, kPointers);
  for (size_t i = 0; i < read; ++i) {
    if (!image.Read(address + kHeadBytes + i * head.pointer_bytes, &pointers[i],
                    head.pointer_bytes)) {
      return std::nullopt;
    }
  }
  if (pointers[0] != address) return std::nullopt;
  Root root{.address = address, .format = head.format, .pointer_bytes = head.pointer_bytes};
  root.version = CleanText({head.version, strnlen(head.version, sizeof(head.version))});
  if (root.format != kRootFormat) {
    throw BadImage(
        fmt::format("the process runs on TCMalloc {}, whose records have format {}; this command "
                    "knows format {}: use the command of that version",
                    root.version, root.format, kRootFormat));
  }
  root.layout = pointers[1];
  root.layout_bytes = pointers[2];
  root.samples = pointers[3];
  root.heap = pointers[4];
  root.heap_exists = pointers[5];
  root.page_map = pointers[6];
  root.abort_line = pointers[7];
  root.debug = pointers[8];
  return root;
}

namespace {

// How many bytes of headers and notes may still be read of the process.
class Budget {
 public:
  // False when there are not so many.
  bool Take(size_t bytes) {
    left_ -= std::min(left_, bytes);
    return left_ > 0;
  }

 private:
  size_t left_ = kMostHeadBytes;
};

// Returns the root to which a note in [start, start + bytes) leads.
std::optional<Root> RootFromNotes(Image& image, Address start, size_t bytes, Budget* budget) {
  if (bytes > kMaxNoteBytes || !budget->Take(bytes)) return std::nullopt;
  std::vector<char> notes(bytes);
  if (!image.Read(start, notes.data(), bytes)) return std::nullopt;
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
    Elf64_Nhdr note;  // the same for both word sizes
    memcpy(&note, &notes[at], sizeof(note));
    const size_t name = at + sizeof(note);
    const size_t contents = name + (size_t{note.n_namesz} + 3) / 4 * 4;
    const size_t end = contents + (size_t{note.n_descsz} + 3) / 4 * 4;
    if (end > bytes || end <= at) return std::nullopt;
    if (note.n_namesz == sizeof(kNoteName) && note.n_descsz == sizeof(int32_t) &&
        memcmp(&notes[name], kNoteName, sizeof(kNoteName)) == 0) {
      int32_t distance;
      memcpy(&distance, &notes[contents], sizeof(distance));
      const Address place = start + contents;
      if (auto root = RootAt(image, place + static_cast<Address>(int64_t{distance}))) return root;
      if (!budget->Take(kFailedRootBytes)) return std::nullopt;
    }
    at = end;
  }
  return std::nullopt;
}

template <typename FileHeader, typename ProgramHeader>
std::optional<Root> RootOfFile(Image& image, Address start, Budget* budget) {
  FileHeader file;
  if (!image.ReadValue(start, &file) || file.e_phentsize != sizeof(ProgramHeader) ||
      file.e_phnum > kMaxProgramHeaders) {
    return std::nullopt;
  }
  std::vector<ProgramHeader> headers(file.e_phnum);
  if (!budget->Take(headers.size() * sizeof(ProgramHeader))) return std::nullopt;
  if (!image.Read(start + file.e_phoff, headers.data(), headers.size() * sizeof(ProgramHeader))) {
    return std::nullopt;
  }
  // Addresses in the headers are relative to where the first segment would be without relocation.
  Address base = start;
  for (const ProgramHeader& header : headers) {
    if (header.p_type == PT_LOAD && header.p_offset == 0) base = start - header.p_vaddr;
  }
  for (const ProgramHeader& header : headers) {
    if (header.p_type != PT_NOTE) continue;
    if (auto root = RootFromNotes(image, base + header.p_vaddr, header.p_filesz, budget)) {
      return root;
    }
  }
  return std::nullopt;
}

std::optional<Root> RootOfFileAt(Image& image, Address start, Budget* budget) {
  unsigned char identity[EI_NIDENT];
  if (!image.ReadValue(start, &identity) || memcmp(identity, ELFMAG, SELFMAG) != 0) {
    return std::nullopt;
  }
  return identity[EI_CLASS] == ELFCLASS64
             ? RootOfFile<Elf64_Ehdr, Elf64_Phdr>(image, start, budget)
             : RootOfFile<Elf32_Ehdr, Elf32_Phdr>(image, start, budget);
}

std::optional<Root> RootInPart(Image& image, Address start, Address end) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::vector<char> piece(kPiece + kMagicBytes);
  for (Address at = start; at < end; at += kPiece) {
    const size_t bytes = std::min<Address>(piece.size(), end - at);
    if (!image.Read(at, piece.data(), bytes)) continue;
    const std::string_view text(piece.data(), bytes);
    for (size_t found = text.find({kMagic, kMagicBytes}); found != std::string_view::npos;
         found = text.find({kMagic, kMagicBytes}, found + 1)) {
      if (auto root = RootAt(image, at + found)) return root;
    }
  }
  return std::nullopt;
}

// Searches the variables of the program and its libraries.
std::optional<Root> RootInVariables(Image& image, const std::vector<Mapping>& mappings) {
  Address left = kMostSearchedBytes;
  for (const Mapping& mapping : mappings) {
    if (!mapping.readable || !mapping.writable) continue;
    for (const auto& [start, end] : image.PartsInMemory(mapping.start, mapping.end)) {
      const Address bytes = std::min(end - start, left);
      if (auto root = RootInPart(image, start, start + bytes)) return root;
      left -= bytes;
    }
  }
  return std::nullopt;
}

// Whether a file's ELF header may be at the start of the mapping.
bool MayBeginFile(const Mapping& mapping) { return mapping.readable && mapping.file_offset == 0; }

bool HasHeap(Image& image, const Root& root) {
  uint8_t exists = 0;
  return image.ReadValue(root.heap_exists, &exists) && exists != 0;
}

}  // namespace

std::optional<Root> FindRoot(Image& image, Search search) {
  const std::vector<Mapping> mappings = ModuleMappings(image);
  std::optional<Root> without_heap;
  Budget budget;
  for (const Mapping& mapping : mappings) {
    if (!MayBeginFile(mapping)) continue;
    auto root = RootOfFileAt(image, mapping.start, &budget);
    if (root.has_value() && HasHeap(image, *root)) return root;
    if (!without_heap.has_value()) without_heap = std::move(root);
  }
  if (without_heap.has_value()) return without_heap;
  if (search == Search::kNotes) return std::nullopt;
  return RootInVariables(image, mappings);
}

std::vector<Root> OtherRootsWithHeap(Image& image, const Root& root) {
  std::vector<Root> others;
  Budget budget;
  for (const Mapping& mapping : ModuleMappings(image)) {
    if (!MayBeginFile(mapping)) continue;
    try {
      auto other = RootOfFileAt(image, mapping.start, &budget);
      if (other.has_value() && other->address != root.address && HasHeap(image, *other)) {
        others.push_back(std::move(*other));
      }
    } catch (const BadImage&) {
      // This is a copy with an unknown format, whose heap is not examined either.
    }
  }
  return others;
}

}  // namespace cli
