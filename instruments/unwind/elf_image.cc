// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/elf_image.h"

#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/files.h"

namespace tcmalloc {
namespace {

// Linkers produce fewer; a header with more counts as invalid.
constexpr size_t kMaxSegments = 64;
constexpr size_t kMaxNotes = 64;

// Reads that stay within an image.
class ImageReader {
 public:
  ImageReader(uintptr_t start, uintptr_t limit) : start_(start), limit_(limit) {}

  template <typename T>
  bool Read(uintptr_t address, T* to) const {
    return ReadBytes(address, to, sizeof(T));
  }

  bool ReadBytes(uintptr_t address, void* to, size_t bytes) const {
    return address >= start_ && address <= limit_ && bytes <= limit_ - address &&
           ReadOwnMemory(address, to, bytes);
  }

 private:
  const uintptr_t start_;
  const uintptr_t limit_;
};

bool IsOwnKind(const ElfW(Ehdr) & header) {
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == kClass &&
         (header.e_type == ET_EXEC || header.e_type == ET_DYN) &&
         header.e_phentsize == sizeof(ElfW(Phdr)) && header.e_phnum <= kMaxSegments;
}

// Searches the notes of one segment for the build id.
bool FindBuildId(const ImageReader& reader, uintptr_t address, const ElfW(Phdr) & segment,
                 ElfImage* image) {
  const uintptr_t alignment = segment.p_align == 8 ? 8 : 4;
  const uintptr_t end = address + segment.p_memsz;
  for (size_t i = 0; i < kMaxNotes && address < end; ++i) {
    ElfW(Nhdr) note;
    if (!reader.Read(address, &note)) return false;
    const uintptr_t name = address + sizeof(note);
    const auto round_up = [alignment](uintptr_t n) {
      return (n + alignment - 1) / alignment * alignment;
    };
    // Header and name are padded together.
    const uintptr_t value = address + round_up(sizeof(note) + note.n_namesz);
    char vendor[sizeof(ELF_NOTE_GNU)];
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(vendor) &&
        reader.Read(name, &vendor) && memcmp(vendor, ELF_NOTE_GNU, sizeof(vendor)) == 0 &&
        note.n_descsz <= sizeof(image->build_id) &&
        reader.ReadBytes(value, image->build_id, note.n_descsz)) {
      image->build_id_bytes = note.n_descsz;
      return true;
    }
    const uintptr_t next = value + round_up(note.n_descsz);
    if (next <= address) return false;
    address = next;
  }
  return false;
}

// Upper bounds; headers with higher numbers count as invalid.
constexpr size_t kMaxProgramHeaders = 64;
constexpr size_t kMaxDynamic = 256;
constexpr size_t kMaxSections = 4096;
constexpr size_t kMaxSymbols = size_t{1} << 24;
// Longer names are cut off; only C++ names are that long.
constexpr size_t kMaxName = 400;

// The sources of bytes: this process's memory, or a file.
class Memory {
 public:
  explicit Memory(uintptr_t limit) : limit_(limit) {}
  bool Read(uintptr_t address, void* to, size_t bytes) const {
    return address <= limit_ && bytes <= limit_ - address && ReadOwnMemory(address, to, bytes);
  }

 private:
  const uintptr_t limit_;
};

class File {
 public:
  explicit File(const char* path) : fd_(OpenForReading(path)) {}
  ~File() {
    if (fd_ >= 0) Close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool Read(uintptr_t at, void* to, size_t bytes) const {
    if (fd_ < 0 || at > static_cast<uintptr_t>(INTPTR_MAX)) return false;
    if (syscall(SYS_lseek, fd_, static_cast<long>(at), SEEK_SET) < 0) return false;
    return ReadFrom(fd_, to, bytes) == static_cast<ssize_t>(bytes);
  }

 private:
  const int fd_;
};

struct SymbolTable {
  uintptr_t symbols = 0;
  size_t num_symbols = 0;
  uintptr_t names = 0;
  size_t name_bytes = 0;
};

template <typename Source>
void ScanTable(const Source& source, const SymbolTable& table, uintptr_t bias,
               const ElfFunctionVisitor& visitor) {
  constexpr size_t kAtOnce = 64;
  constexpr unsigned kTypeMask = 0xf;
  ElfW(Sym) symbols[kAtOnce];
  for (size_t first = 0; first < table.num_symbols; first += kAtOnce) {
    const size_t n = std::min(kAtOnce, table.num_symbols - first);
    if (!source.Read(table.symbols + first * sizeof(symbols[0]), symbols, n * sizeof(symbols[0]))) {
      return;
    }
    for (size_t i = 0; i < n; ++i) {
      const ElfW(Sym)& symbol = symbols[i];
      const unsigned type = symbol.st_info & kTypeMask;
      if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_size == 0 || symbol.st_name >= table.name_bytes) {
        continue;
      }
      const uintptr_t start = bias + static_cast<uintptr_t>(symbol.st_value);
      if (!visitor.wants(visitor.context, start, start + static_cast<uintptr_t>(symbol.st_size))) {
        continue;
      }
      char name[kMaxName];
      const size_t length = std::min(sizeof(name), table.name_bytes - symbol.st_name);
      if (!source.Read(table.names + symbol.st_name, name, length)) continue;
      const char* const end = std::find(name, name + length, '\0');
      visitor.name(visitor.context, {name, static_cast<size_t>(end - name)});
    }
  }
}

// Finds the table ".symtab" of a file.
bool FindFileTable(const File& file, const ElfW(Ehdr) & header, SymbolTable* table) {
  if (header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shnum > kMaxSections) return false;
  const auto read = [&](size_t i, ElfW(Shdr) * section) {
    return i < header.e_shnum &&
           file.Read(static_cast<uintptr_t>(header.e_shoff) + i * sizeof(*section), section,
                     sizeof(*section));
  };
  for (size_t i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) section;
    ElfW(Shdr) names;
    if (!read(i, &section)) return false;
    if (section.sh_type != SHT_SYMTAB || section.sh_entsize != sizeof(ElfW(Sym))) continue;
    if (!read(section.sh_link, &names)) return false;
    *table = {static_cast<uintptr_t>(section.sh_offset),
              static_cast<size_t>(section.sh_size / sizeof(ElfW(Sym))),
              static_cast<uintptr_t>(names.sh_offset), static_cast<size_t>(names.sh_size)};
    return table->num_symbols <= kMaxSymbols;
  }
  return false;
}

// The number of symbols in the table of this hash table (the ABI's, or GNU's).
bool CountByHash(const Memory& memory, uintptr_t hash, size_t* count) {
  uint32_t header[2];
  if (!memory.Read(hash, header, sizeof(header))) return false;
  *count = header[1];
  return true;
}

bool CountByGnuHash(const Memory& memory, uintptr_t hash, size_t* count) {
  struct {
    uint32_t num_buckets;
    uint32_t first_symbol;
    uint32_t bloom_words;
    uint32_t bloom_shift;
  } header;
  if (!memory.Read(hash, &header, sizeof(header))) return false;
  const uintptr_t buckets =
      hash + sizeof(header) + uintptr_t{header.bloom_words} * sizeof(uintptr_t);
  uint32_t last = 0;
  uint32_t words[64];
  for (uint32_t first = 0; first < header.num_buckets; first += std::size(words)) {
    const size_t n = std::min<size_t>(std::size(words), header.num_buckets - first);
    if (!memory.Read(buckets + uintptr_t{first} * sizeof(uint32_t), words, n * sizeof(uint32_t))) {
      return false;
    }
    for (size_t i = 0; i < n; ++i) last = std::max(last, words[i]);
  }
  *count = header.first_symbol;
  if (last < header.first_symbol) return true;
  // The chain of the last bucket ends with an odd hash.
  const uintptr_t chains = buckets + uintptr_t{header.num_buckets} * sizeof(uint32_t);
  for (uint32_t hashed = 0; (hashed & 1) == 0; ++last) {
    if (last >= kMaxSymbols ||
        !memory.Read(chains + uintptr_t{last - header.first_symbol} * sizeof(uint32_t), &hashed,
                     sizeof(hashed))) {
      return false;
    }
  }
  *count = last;
  return true;
}

bool FindDynamicTable(const Memory& memory, uintptr_t start, uintptr_t limit, uintptr_t bias,
                      uintptr_t dynamic, SymbolTable* table) {
  uintptr_t hash = 0;
  uintptr_t gnu_hash = 0;
  // Some dynamic linkers store addresses in the dynamic section; others keep the values of the
  // file.
  const auto address_of = [&](uintptr_t value) {
    return value >= start && value < limit ? value : value + bias;
  };
  for (size_t i = 0; i < kMaxDynamic; ++i) {
    ElfW(Dyn) entry;
    if (!memory.Read(dynamic + i * sizeof(entry), &entry, sizeof(entry))) return false;
    const auto value = static_cast<uintptr_t>(entry.d_un.d_val);
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMTAB) table->symbols = address_of(value);
    if (entry.d_tag == DT_STRTAB) table->names = address_of(value);
    if (entry.d_tag == DT_STRSZ) table->name_bytes = value;
    if (entry.d_tag == DT_HASH) hash = address_of(value);
    if (entry.d_tag == DT_GNU_HASH) gnu_hash = address_of(value);
  }
  if (table->symbols == 0 || table->names == 0) return false;
  const bool counted = gnu_hash != 0 ? CountByGnuHash(memory, gnu_hash, &table->num_symbols)
                                     : hash != 0 && CountByHash(memory, hash, &table->num_symbols);
  return counted && table->num_symbols <= kMaxSymbols;
}

}  // namespace

bool ReadOwnMemory(uintptr_t address, void* to, size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = {reinterpret_cast<void*>(address), bytes};
  // This is a system call, since getpid may return a value that was cached before a fork.
  const long self = syscall(SYS_getpid);
  return syscall(SYS_process_vm_readv, self, &local, 1L, &remote, 1L, 0L) ==
         static_cast<long>(bytes);
}

bool ReadElfImage(uintptr_t start, uintptr_t limit, ElfImage* image) {
  *image = {};
  const ImageReader reader(start, limit);
  ElfW(Ehdr) header;
  if (!reader.Read(start, &header) || !IsOwnKind(header)) return false;
  ElfW(Phdr) segments[kMaxSegments];
  if (!reader.ReadBytes(start + header.e_phoff, segments, header.e_phnum * sizeof(segments[0]))) {
    return false;
  }
  // The segment with the file's first byte is the first loaded one.
  bool loaded = false;
  for (size_t i = 0; i < header.e_phnum && !loaded; ++i) {
    if (segments[i].p_type != PT_LOAD) continue;
    image->bias = start - (segments[i].p_vaddr - segments[i].p_offset);
    loaded = true;
  }
  if (!loaded) return false;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    if (segments[i].p_type == PT_NOTE &&
        FindBuildId(reader, image->bias + segments[i].p_vaddr, segments[i], image)) {
      break;
    }
  }
  return true;
}

uintptr_t ProgramEntry() { return getauxval(AT_ENTRY); }

void ForEachElfFunction(uintptr_t start, uintptr_t limit, const char* path,
                        const ElfFunctionVisitor& visitor) {
  const Memory memory(limit);
  ElfImage image;
  ElfW(Ehdr) header;
  if (!ReadElfImage(start, limit, &image) || !memory.Read(start, &header, sizeof(header))) return;
  {
    // The path may name another file by now; then its header almost always differs.
    const File file(path);
    ElfW(Ehdr) in_file;
    SymbolTable table;
    if (file.Read(0, &in_file, sizeof(in_file)) && memcmp(&in_file, &header, sizeof(header)) == 0 &&
        FindFileTable(file, header, &table)) {
      ScanTable(file, table, image.bias, visitor);
    }
  }
  for (size_t i = 0; i < header.e_phnum && i < kMaxProgramHeaders; ++i) {
    ElfW(Phdr) segment;
    const auto at = start + static_cast<uintptr_t>(header.e_phoff) + i * sizeof(segment);
    if (!memory.Read(at, &segment, sizeof(segment))) return;
    if (segment.p_type != PT_DYNAMIC) continue;
    // The data follow the code, perhaps beyond `limit`.
    const Memory all(UINTPTR_MAX);
    SymbolTable table;
    const auto dynamic = image.bias + static_cast<uintptr_t>(segment.p_vaddr);
    if (FindDynamicTable(all, start, limit, image.bias, dynamic, &table)) {
      ScanTable(all, table, image.bias, visitor);
    }
    return;
  }
}

}  // namespace tcmalloc
