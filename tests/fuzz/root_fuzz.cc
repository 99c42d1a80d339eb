// SPDX-License-Identifier: BSD-3-Clause
// The search for the library in a process: files in its memory with damaged headers and notes, and
// damaged roots. It ends, or throws Failure, and needs little memory.
#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "changes.h"
#include "cli/fake_image.h"
#include "heap/record.h"
#include "image/find_root.h"
#include "image/modules.h"

namespace {

using namespace cli;

constexpr Address kStart = 0x10000;

template <typename T>
std::string Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string Note(const std::string& name, uint32_t type, const std::string& contents) {
  const Elf64_Nhdr note = {static_cast<Elf64_Word>(name.size() + 1),
                           static_cast<Elf64_Word>(contents.size()), type};
  std::string text = Bytes(note) + name + '\0';
  text.resize((text.size() + 3) / 4 * 4);
  return text + contents;
}

// A library in memory: its headers, a build id, the note that leads to the root, the root, and a
// field table.
std::string SoundFile() {
  constexpr size_t kNotes = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
  const std::string build_id = Note("GNU", NT_GNU_BUILD_ID, std::string(20, '\7'));
  const std::string empty = Note("TCMalloc", 1, Bytes(int32_t{0}));
  const size_t place = kNotes + build_id.size() + empty.size() - sizeof(int32_t);
  const size_t root = kNotes + build_id.size() + empty.size();
  const std::string notes =
      build_id + Note("TCMalloc", 1, Bytes(static_cast<int32_t>(root - place)));
  Elf64_Ehdr header = {};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 3;
  Elf64_Phdr load = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X};
  load.p_filesz = load.p_memsz = 4096;
  Elf64_Phdr note = {.p_type = PT_NOTE, .p_flags = PF_R, .p_offset = kNotes, .p_vaddr = kNotes};
  note.p_filesz = note.p_memsz = notes.size();
  const Elf64_Phdr tls = {.p_type = PT_TLS, .p_memsz = 64, .p_align = 16};
  const std::string table = "constants\nclock 1\n";
  // The root: see instruments/introspection/root.h.
  const size_t root_bytes = 8 + 4 + 2 + 2 + 16 + 9 * 8;
  std::string text = "TCMROOT\n" + Bytes(uint32_t{1}) + Bytes(uint16_t{8}) +
                     Bytes(static_cast<uint16_t>(root_bytes)) +
                     std::string("1.2.3\0\0\0\0\0\0\0\0\0\0\0", 16);
  const uint64_t after = kStart + root + root_bytes;
  for (const uint64_t pointer :
       {kStart + root, after, uint64_t{table.size()}, after, after, after, after, after, after}) {
    text += Bytes(pointer);
  }
  return Bytes(header) + Bytes(load) + Bytes(note) + Bytes(tls) + notes + text + table +
         std::string(64, '\1');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string sound = SoundFile();
  std::string file = sound;
  fuzz::Change(data, size, &file);
  FakeImage image;
  image.Put(kStart, file, "/lib/library.so");
  image.Put(kStart + 0x100000, file, "/lib/copy.so (deleted)");
  for (const Module& module : ReadModules(image)) {
    static_cast<void>(LoadedPartsOf(module));
    static_cast<void>(ThreadStorageOf(module));
    fuzz::RequireClean(module.path);
    fuzz::RequireClean(module.build_id);
  }
  try {
    const auto root = FindRoot(image);
    // Without changes it is found.
    if (size == 0 && !root.has_value()) abort();
    if (!root.has_value()) return 0;
    fuzz::RequireClean(root->version);
    static_cast<void>(OtherRootsWithHeap(image, *root));
    static_cast<void>(Target(image, *root).HasHeap());
  } catch (const Failure& failure) {
    fuzz::RequireClean(failure.what());
  }
  return 0;
}
