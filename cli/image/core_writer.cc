// SPDX-License-Identifier: BSD-3-Clause
#include "image/core_writer.h"

#include <elf.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "image/core_notes.h"
#include "image/output.h"

namespace cli {
namespace {

constexpr uint64_t kAlignment = 4096;
// An x86 register set of at least this size is one of the xsave instruction.
constexpr size_t kExtendedStateBytes = 576;
// An ELF header without section headers can count one more.
constexpr size_t kMostParts = PN_XNUM - 2;

// Memory without a gap.
struct Part {
  Address start = 0;
  uint64_t bytes = 0;
};

std::vector<Part> PartsOf(const CopiedImage& memory) {
  std::vector<Part> parts;
  memory.ForEachPart([&parts](Address start, std::span<const char> contents) {
    if (parts.empty() || parts.back().start + parts.back().bytes != start) {
      parts.push_back({.start = start});
    }
    parts.back().bytes += contents.size();
  });
  return parts;
}

class Notes {
 public:
  void Add(std::string_view owner, uint32_t type, std::string_view contents) {
    const Elf64_Nhdr header = {.n_namesz = static_cast<uint32_t>(owner.size() + 1),
                               .n_descsz = static_cast<uint32_t>(contents.size()),
                               .n_type = type};  // the same for both word sizes
    text_.append(reinterpret_cast<const char*>(&header), sizeof(header));
    text_ += owner;
    text_ += '\0';
    Align();
    text_ += contents;
    Align();
  }
  const std::string& text() const { return text_; }

 private:
  void Align() { text_.resize((text_.size() + 3) / 4 * 4); }

  std::string text_;
};

// Returns the kernel's elf_prpsinfo: the process's PID and name, for debuggers.
std::string ProcessNote(const ProcessInfo& info, size_t pointer_bytes) {
  const bool wide = pointer_bytes == 8;
  std::string note(wide ? 136 : 124, '\0');
  memcpy(&note[wide ? 24 : 12], &info.pid, sizeof(info.pid));
  const auto put = [&note](size_t at, size_t most, const std::string& text) {
    memcpy(&note[at], text.data(), std::min(text.size(), most - 1));
  };
  put(wide ? 40 : 28, 16, info.name);
  put(wide ? 56 : 44, 80, info.executable);
  return note;
}

std::string FilesNote(const std::vector<MappingUse>& mappings, size_t pointer_bytes) {
  std::string numbers;
  std::string names;
  uint64_t count = 0;
  const auto add = [pointer_bytes](uint64_t number, std::string* to) {
    to->append(reinterpret_cast<const char*>(&number), pointer_bytes);
  };
  for (const MappingUse& use : mappings) {
    const Mapping& mapping = use.mapping;
    if (!mapping.name.starts_with('/')) continue;
    ++count;
    add(mapping.start, &numbers);
    add(mapping.end, &numbers);
    add(mapping.file_offset / kAlignment, &numbers);
    names += mapping.name + '\0';
  }
  std::string note;
  add(count, &note);
  add(kAlignment, &note);
  return note + numbers + names;
}

// Returns the rights of the mapping with that address.
uint32_t RightsAt(const std::vector<MappingUse>& mappings, Address address) {
  for (const MappingUse& use : mappings) {
    const Mapping& mapping = use.mapping;
    if (address < mapping.start || address >= mapping.end) continue;
    return PF_R | (mapping.writable ? PF_W : 0u);
  }
  return PF_R;
}

// Returns the headers: that of the notes, which follow the headers, then those of the parts, which
// follow at `offset`.
std::string HeadersOf(const std::vector<Part>& parts, const SnapshotFacts& facts, int elf_class,
                      uint16_t machine, size_t notes_bytes, uint64_t* offset) {
  elf_version(EV_CURRENT);
  // libelf writes to files only.
  const int file = memfd_create("headers", MFD_CLOEXEC);
  Elf* const elf = elf_begin(file, ELF_C_WRITE, nullptr);
  const auto check = [elf, file](bool ok) {
    if (ok) return;
    const std::string why = elf_errmsg(-1);
    elf_end(elf);
    close(file);
    throw Failure(fmt::format("cannot write the headers of the snapshot: {}", why));
  };
  check(elf != nullptr && gelf_newehdr(elf, elf_class) != nullptr);
  elf_flagelf(elf, ELF_C_SET, ELF_F_LAYOUT);
  const size_t count = parts.size() + 1;
  check(gelf_newphdr(elf, count) != nullptr);
  GElf_Ehdr header;
  check(gelf_getehdr(elf, &header) != nullptr);
  header.e_ident[EI_DATA] = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  header.e_type = ET_CORE;
  header.e_machine = machine;
  header.e_version = EV_CURRENT;
  header.e_phoff = gelf_fsize(elf, ELF_T_EHDR, 1, EV_CURRENT);
  check(gelf_update_ehdr(elf, &header) != 0);
  const uint64_t notes_offset = header.e_phoff + gelf_fsize(elf, ELF_T_PHDR, count, EV_CURRENT);
  GElf_Phdr notes = {};
  notes.p_type = PT_NOTE;
  notes.p_offset = notes_offset;
  notes.p_filesz = notes_bytes;
  notes.p_align = 4;
  check(gelf_update_phdr(elf, 0, &notes) != 0);
  *offset = (notes_offset + notes_bytes + kAlignment - 1) / kAlignment * kAlignment;
  uint64_t at = *offset;
  for (size_t i = 0; i < parts.size(); ++i) {
    GElf_Phdr part = {};
    part.p_type = PT_LOAD;
    part.p_flags = RightsAt(facts.mappings, parts[i].start);
    part.p_offset = at;
    part.p_vaddr = parts[i].start;
    part.p_filesz = part.p_memsz = parts[i].bytes;
    part.p_align = kAlignment;
    check(gelf_update_phdr(elf, static_cast<int>(i + 1), &part) != 0);
    at += parts[i].bytes;
  }
  check(elf_update(elf, ELF_C_WRITE) >= 0);
  std::string headers(notes_offset, '\0');
  check(pread(file, headers.data(), headers.size(), 0) == static_cast<ssize_t>(headers.size()));
  elf_end(elf);
  close(file);
  return headers;
}

}  // namespace

void WriteSnapshot(const std::string& path, const CopiedImage& memory, const SnapshotFacts& facts,
                   size_t pointer_bytes, uint16_t machine, const std::string& auxiliary_vector) {
  const std::vector<Part> parts = PartsOf(memory);
  if (parts.size() > kMostParts) {
    throw Failure(fmt::format("the allocator's records lie in {} places, more than a file can have",
                              parts.size()));
  }
  Notes notes;
  notes.Add("CORE", NT_PRPSINFO, ProcessNote(facts.info, pointer_bytes));
  for (const ThreadRegisters& thread : memory.Threads()) {
    notes.Add("CORE", NT_PRSTATUS, ThreadStatus(thread));
    if (!thread.thread_pointer_note.empty()) {
      notes.Add("LINUX", thread.machine->thread_pointer_note, thread.thread_pointer_note);
    }
    if (!thread.vector_set.empty()) {
      const bool is_x86 = thread.machine->elf == EM_X86_64 || thread.machine->elf == EM_386;
      const bool is_extended = is_x86 && thread.vector_set.size() >= kExtendedStateBytes;
      notes.Add(is_extended ? "LINUX" : "CORE", is_extended ? NT_X86_XSTATE : NT_FPREGSET,
                thread.vector_set);
    }
  }
  notes.Add("CORE", NT_AUXV, auxiliary_vector);
  notes.Add("CORE", NT_FILE, FilesNote(facts.mappings, pointer_bytes));
  notes.Add(kSnapshotNoteName, kSnapshotNoteType, SnapshotText(facts));
  uint64_t offset = 0;
  const std::string headers = HeadersOf(parts, facts, pointer_bytes == 8 ? ELFCLASS64 : ELFCLASS32,
                                        machine, notes.text().size(), &offset);
  Output file(path, Readers::kOwnerOnly);
  file.Write(headers);
  file.Write(notes.text());
  file.Write(std::string(offset - headers.size() - notes.text().size(), '\0'));
  memory.ForEachPart([&file](Address, std::span<const char> contents) {
    file.Write({contents.data(), contents.size()});
  });
  file.Finish();
}

}  // namespace cli
