// SPDX-License-Identifier: BSD-3-Clause
#include "image/snapshot.h"

#include <elf.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "image/core_notes.h"
#include "image/output.h"
#include "image/text.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSnapshotFormat = 1;

Json JsonOf(const MappingUse& use) {
  const Mapping& mapping = use.mapping;
  return {{"start", mapping.start},
          {"end", mapping.end},
          {"file_offset", mapping.file_offset},
          {"readable", mapping.readable},
          {"writable", mapping.writable},
          {"shared", mapping.shared},
          {"executable", mapping.executable},
          {"name", mapping.name},
          {"resident_bytes", use.resident_bytes},
          {"anonymous_bytes", use.anonymous_bytes},
          {"lazily_freed_bytes", use.lazily_freed_bytes},
          {"hugepage_bytes", use.hugepage_bytes},
          {"hugetlb_bytes", use.hugetlb_bytes}};
}

std::string TextOf(const Json& json) { return CleanText(json.get<std::string>()); }

MappingUse MappingOf(const Json& json) {
  MappingUse use;
  use.mapping = {.start = json.at("start"),
                 .end = json.at("end"),
                 .file_offset = json.at("file_offset"),
                 .readable = json.at("readable"),
                 .writable = json.at("writable"),
                 .name = TextOf(json.at("name")),
                 .shared = json.at("shared"),
                 .executable = json.value("executable", false)};
  if (use.mapping.start >= use.mapping.end) throw BadImage("the snapshot has an empty mapping");
  use.resident_bytes = json.at("resident_bytes");
  use.anonymous_bytes = json.at("anonymous_bytes");
  use.lazily_freed_bytes = json.at("lazily_freed_bytes");
  use.hugepage_bytes = json.at("hugepage_bytes");
  use.hugetlb_bytes = json.at("hugetlb_bytes");
  return use;
}

void CheckOrder(bool in_order) {
  if (!in_order) throw BadImage("the snapshot's note is damaged: it is not in order");
}

// The levels of a note: the facts, their lists, the elements, and the values of these.
constexpr int kDeepest = 3;

// The parser calls it for each part of the note. A note has only whole numbers; to convert another
// one that is out of range would be undefined.
bool RequireNote(int depth, Json::parse_event_t event, Json& part) {
  if (depth > kDeepest) throw BadImage("the snapshot's note is damaged: it is too deep");
  if (event == Json::parse_event_t::value && part.is_number_float()) {
    throw BadImage("the snapshot's note is damaged: a number is not a whole one");
  }
  return true;
}

}  // namespace

std::string SnapshotText(const SnapshotFacts& facts) {
  const ProcessInfo& info = facts.info;
  Json json = {{"format", kSnapshotFormat},
               {"pid", info.pid},
               {"name", info.name},
               {"program", info.executable},
               {"threads", info.threads},
               {"resident_bytes", info.memory.resident_bytes},
               {"anonymous_bytes", info.memory.anonymous_bytes},
               {"swapped_bytes", info.memory.swapped_bytes},
               {"peak_resident_bytes", info.memory.peak_resident_bytes},
               {"time_ns", facts.time_ns},
               {"clock", facts.clock},
               {"now_ms", facts.now_ms},
               {"root", facts.root},
               {"all_memory", facts.all_memory}};
  Json& mappings = json["mappings"] = Json::array();
  for (const MappingUse& use : facts.mappings) mappings.push_back(JsonOf(use));
  Json& pages = json["pages"] = Json::array();
  for (const PageRun& run : facts.pages) pages.push_back({run.first, run.pages, run.possible});
  Json& stacks = json["stacks"] = Json::array();
  for (const ThreadStack& stack : facts.stacks) stacks.push_back({stack.thread, stack.pointer});
  json["stack_bytes"] = facts.stack_bytes;
  Json& names = json["thread_names"] = Json::array();
  for (const auto& [thread, name] : facts.thread_names) names.push_back({thread, name});
  Json& functions = json["jit_functions"] = Json::array();
  for (const auto& [start, end, name] : facts.jit_functions) {
    functions.push_back({start, end, name});
  }
  return DumpJson(json);
}

SnapshotFacts ParseSnapshot(const std::string& text) {
  try {
    const Json json = Json::parse(text, &RequireNote);
    if (json.at("format") != kSnapshotFormat) {
      throw BadImage("the snapshot is of another version: use the command of that version");
    }
    SnapshotFacts facts;
    ProcessInfo& info = facts.info;
    info.pid = json.at("pid");
    info.name = TextOf(json.at("name"));
    info.executable = TextOf(json.at("program"));
    info.threads = json.at("threads");
    info.memory = {.resident_bytes = json.at("resident_bytes"),
                   .anonymous_bytes = json.at("anonymous_bytes"),
                   .swapped_bytes = json.at("swapped_bytes"),
                   .peak_resident_bytes = json.at("peak_resident_bytes")};
    facts.time_ns = json.at("time_ns");
    facts.clock = json.at("clock");
    facts.now_ms = json.at("now_ms");
    facts.root = json.at("root");
    facts.all_memory = json.value("all_memory", false);
    for (const Json& mapping : json.at("mappings")) {
      facts.mappings.push_back(MappingOf(mapping));
      const size_t n = facts.mappings.size();
      CheckOrder(n == 1 ||
                 facts.mappings[n - 2].mapping.end <= facts.mappings[n - 1].mapping.start);
    }
    uint64_t end = 0;
    for (const Json& run : json.at("pages")) {
      facts.pages.push_back({.first = run.at(0), .pages = run.at(1), .possible = run.at(2)});
      const PageRun& added = facts.pages.back();
      CheckOrder(added.first >= end && added.first + added.pages > added.first);
      end = added.first + added.pages;
    }
    for (const Json& stack : json.at("stacks")) {
      facts.stacks.push_back({.thread = stack.at(0), .pointer = stack.at(1)});
      const size_t n = facts.stacks.size();
      CheckOrder(n == 1 || facts.stacks[n - 2].pointer <= facts.stacks[n - 1].pointer);
    }
    facts.stack_bytes = json.at("stack_bytes");
    // A snapshot of an older command has no registers, and no names of threads and of compiled
    // functions.
    for (const Json& name : json.value("thread_names", Json::array())) {
      facts.thread_names.emplace(name.at(0), TextOf(name.at(1)));
    }
    for (const Json& one : json.value("jit_functions", Json::array())) {
      facts.jit_functions.push_back(
          {.start = one.at(0), .end = one.at(1), .name = TextOf(one.at(2))});
      const size_t n = facts.jit_functions.size();
      const JitFunction& added = facts.jit_functions.back();
      CheckOrder(added.start < added.end &&
                 (n == 1 || facts.jit_functions[n - 2].end <= added.start));
    }
    return facts;
  } catch (const Json::exception& error) {
    // The parser quotes what it cannot read.
    throw BadImage("the snapshot's note is damaged: " + CleanText(error.what()));
  }
}

namespace {

constexpr uint64_t kAlignment = 4096;
// An x86 register set of at least this size is one of the xsave instruction.
constexpr size_t kExtendedStateBytes = 576;
// One less than the most that an ELF header without section headers can count.
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

// Returns the headers: the header of the notes, which follow the headers, then the headers of the
// parts, which follow at `offset`.
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
