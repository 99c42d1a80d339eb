// SPDX-License-Identifier: BSD-3-Clause
#include "image/core_notes.h"

#include <elf.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "image/text.h"

namespace cli {
namespace {

// A process with 65,530 mappings of files with the longest names has fewer bytes of notes.
constexpr size_t kMostCoreNoteBytes = size_t{300} << 20;
constexpr size_t kMostThreads = size_t{1} << 20;
constexpr size_t kMostThreadPointerBytes = 256;

// The offsets of the PID and the name in the kernel's struct elf_prpsinfo, by its size.
struct ProcessLayout {
  size_t bytes, pid, name;
};
constexpr ProcessLayout kProcessLayouts[] = {
    {136, 24, 40},  // 64-bit machines
    {124, 12, 28},  // 32-bit machines with user ids of 16 bits
    {128, 16, 32},  // others
};
constexpr size_t kNameBytes = 16;

class Reader {
 public:
  Reader(Elf* elf, size_t file_bytes, const Machine* machine)
      : elf_(elf), file_bytes_(file_bytes), machine_(machine) {}

  void ReadSegment(const GElf_Phdr& segment) {
    if (segment.p_offset >= file_bytes_) return;
    const size_t bytes = std::min<size_t>(segment.p_filesz, file_bytes_ - segment.p_offset);
    if (bytes > left_bytes_) return;
    left_bytes_ -= bytes;
    Elf_Data* const data = elf_getdata_rawchunk(elf_, static_cast<int64_t>(segment.p_offset), bytes,
                                                segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    if (data == nullptr) return;
    GElf_Nhdr note;
    size_t name = 0;
    size_t contents = 0;
    for (size_t at = 0;
         at < data->d_size && (at = gelf_getnote(data, at, &note, &name, &contents)) > 0;) {
      if (note.n_namesz == 0) continue;
      const char* const bytes_of_segment = static_cast<const char*>(data->d_buf);
      const std::string_view owner(bytes_of_segment + name, note.n_namesz - 1);
      ReadNote(owner, note.n_type, {bytes_of_segment + contents, note.n_descsz},
               segment.p_offset + contents);
    }
  }

  CoreNotes Take() {
    std::sort(notes_.files.begin(), notes_.files.end(),
              [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
    const auto after =
        std::upper_bound(notes_.files.begin(), notes_.files.end(), notes_.program,
                         [](Address address, const Mapping& file) { return address < file.end; });
    if (after != notes_.files.end() && after->start <= notes_.program) {
      notes_.info.executable = after->name;
    }
    return std::move(notes_);
  }

 private:
  void ReadNote(std::string_view owner, uint32_t type, std::string_view contents, size_t offset) {
    if (owner == kSnapshotNoteName && type == kSnapshotNoteType) notes_.snapshot = contents;
    if (owner == "LINUX" && machine_ != nullptr && type == machine_->thread_pointer_note &&
        last_thread_ != nullptr) {
      last_thread_->thread_pointer_note = contents.substr(0, kMostThreadPointerBytes);
    }
    if (last_thread_ != nullptr &&
        ((owner == "LINUX" && type == NT_X86_XSTATE) || (owner == "CORE" && type == NT_FPREGSET))) {
      // On x86-64 the first set is a part of the second one.
      if (contents.size() > last_thread_->vector_set.size()) last_thread_->vector_set = contents;
    }
    if (owner != "CORE") return;
    if (type == NT_PRSTATUS) {
      ++notes_.info.threads;
      ReadThread(contents);
    } else if (type == NT_SIGINFO) {
      ReadSignal(contents);
    } else if (type == NT_PRPSINFO) {
      ReadProcess(contents);
    } else if (type == NT_FILE) {
      ReadFiles(contents);
    } else if (type == NT_AUXV) {
      ReadAuxiliaryVector(offset, contents.size());
    }
  }

  // The notes of a thread are adjacent, and this one is the first.
  void ReadThread(std::string_view contents) {
    last_thread_ = nullptr;
    if (machine_ == nullptr || notes_.threads.size() == kMostThreads) return;
    auto registers = ParseThreadStatus(*machine_, contents);
    if (!registers.has_value()) return;
    notes_.threads.push_back(std::move(*registers));
    last_thread_ = &notes_.threads.back();
  }

  void ReadSignal(std::string_view contents) {
    if (last_thread_ == nullptr) return;
    const auto signal = ParseSignal(contents, machine_->word_bytes);
    // A debugger's core file has this note for each thread, also if there was no signal.
    if (signal.has_value() && signal->number == last_thread_->signal.number) {
      last_thread_->signal = *signal;
    }
  }

  void ReadProcess(std::string_view contents) {
    for (const ProcessLayout& layout : kProcessLayouts) {
      if (contents.size() != layout.bytes) continue;
      int32_t pid = 0;
      memcpy(&pid, contents.data() + layout.pid, sizeof(pid));
      notes_.info.pid = pid;
      const char* const name = contents.data() + layout.name;
      notes_.info.name = CleanText({name, strnlen(name, kNameBytes)});
    }
  }

  // The note has the number of mappings and the size of a page; then the start, the end, and the
  // file offset in pages of each mapping; then the names. Counts and addresses have the size of the
  // process's pointers.
  void ReadFiles(std::string_view contents) {
    const size_t word = gelf_getclass(elf_) == ELFCLASS64 ? 8 : 4;
    const auto number = [contents, word](size_t i) {
      uint64_t value = 0;
      memcpy(&value, contents.data() + i * word, word);
      return value;
    };
    const size_t words = contents.size() / word;
    if (words < 2) return;
    const uint64_t count = number(0);
    if (count > (words - 2) / 3) return;
    std::string_view names = contents.substr((2 + 3 * count) * word);
    for (size_t i = 0; i < count && !names.empty(); ++i) {
      const size_t end = std::min(names.find('\0'), names.size());
      Mapping file{.start = number(2 + 3 * i),
                   .end = number(3 + 3 * i),
                   .file_offset = number(4 + 3 * i) * number(1),
                   .name = CleanText(names.substr(0, end))};
      if (file.start < file.end) notes_.files.push_back(std::move(file));
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }

  void ReadAuxiliaryVector(size_t offset, size_t bytes) {
    Elf_Data* const data =
        elf_getdata_rawchunk(elf_, static_cast<int64_t>(offset), bytes, ELF_T_AUXV);
    GElf_auxv_t entry;
    for (int i = 0; data != nullptr && gelf_getauxv(data, i, &entry) != nullptr; ++i) {
      if (entry.a_type == AT_ENTRY) notes_.program = entry.a_un.a_val;
    }
  }

  Elf* elf_;
  const size_t file_bytes_;
  const Machine* const machine_;            // null if unknown
  ThreadRegisters* last_thread_ = nullptr;  // in notes_
  size_t left_bytes_ = kMostCoreNoteBytes;  // the bytes of notes that may still be read
  CoreNotes notes_;
};

}  // namespace

CoreNotes ReadCoreNotes(Elf* elf, size_t file_bytes) {
  GElf_Ehdr header;
  if (gelf_getehdr(elf, &header) == nullptr) return {};
  Reader reader(elf, file_bytes, FindMachine(header.e_machine));
  size_t segments = 0;
  if (elf_getphdrnum(elf, &segments) != 0) return {};
  for (size_t i = 0; i < segments; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) continue;
    if (segment.p_type == PT_NOTE) reader.ReadSegment(segment);
  }
  return reader.Take();
}

}  // namespace cli
