// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/unwind/elf_image.h"

#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

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

}  // namespace tcmalloc
