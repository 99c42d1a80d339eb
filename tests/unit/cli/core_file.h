// SPDX-License-Identifier: BSD-3-Clause
// Core files that a test writes.
#pragma once

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "image/image.h"

namespace cli {

// A file in memory that has no name on a disk.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& contents)
      : descriptor_(memfd_create("core", MFD_CLOEXEC)),
        path_("/proc/self/fd/" + std::to_string(descriptor_)) {
    Write(contents);
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  // Makes a hole up to the text, which ends at `bytes`.
  void Extend(uint64_t bytes, const std::string& text) const { Put(text, bytes - text.size()); }
  void Write(const std::string& contents) const {
    if (ftruncate(descriptor_, 0) != 0) abort();
    Put(contents, 0);
  }

 private:
  void Put(const std::string& text, uint64_t at) const {
    const ssize_t n = pwrite(descriptor_, text.data(), text.size(), static_cast<off_t>(at));
    if (n != static_cast<ssize_t>(text.size())) abort();
  }

  const int descriptor_;
  const std::string path_;
};

// A core of a 64-bit process.
class Core {
 public:
  // `memory_bytes`: the size in the process, if it is larger than the part in the file.
  void Add(Address address, const std::string& contents, uint64_t memory_bytes = 0) {
    Elf64_Phdr part = {};
    part.p_type = PT_LOAD;
    part.p_flags = PF_R | PF_W | PF_X;
    part.p_vaddr = address;
    part.p_filesz = contents.size();
    part.p_memsz = std::max<uint64_t>(memory_bytes, contents.size());
    parts_.emplace_back(part, contents);
  }
  void AddNote(uint32_t type, const std::string& contents) {
    const Elf64_Nhdr note = {5, static_cast<Elf64_Word>(contents.size()), type};
    notes_.append(reinterpret_cast<const char*>(&note), sizeof(note));
    notes_.append("CORE\0\0\0", 8);
    notes_ += contents;
    notes_.resize((notes_.size() + 3) / 4 * 4);
  }
  std::string Text() {
    if (!notes_.empty()) {
      Elf64_Phdr part = {};
      part.p_type = PT_NOTE;
      part.p_filesz = notes_.size();
      part.p_align = 4;
      parts_.emplace(parts_.begin(), part, notes_);
    }
    Elf64_Ehdr header = {};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_CORE;
    header.e_version = EV_CURRENT;
    header.e_machine = EM_X86_64;
    header.e_phoff = header.e_ehsize = sizeof(header);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<Elf64_Half>(parts_.size());
    std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
    uint64_t offset = sizeof(header) + parts_.size() * sizeof(Elf64_Phdr);
    for (auto& [part, contents] : parts_) {
      part.p_offset = offset;
      offset += contents.size();
      text.append(reinterpret_cast<const char*>(&part), sizeof(part));
    }
    for (const auto& [part, contents] : parts_) text += contents;
    return text;
  }

 private:
  std::vector<std::pair<Elf64_Phdr, std::string>> parts_;
  std::string notes_;
};

inline std::string Numbers(const std::vector<uint64_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint64_t)};
}

}  // namespace cli
