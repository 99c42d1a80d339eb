// SPDX-License-Identifier: BSD-3-Clause
#include "image/core_image.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "image/memory_room.h"
#include "image/open_file.h"
#include "image/text.h"

namespace cli {
namespace {

constexpr unsigned char kByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

// The parser needs at most so many bytes for each byte of a note.
constexpr uint64_t kJsonBytes = 32;
// No process has more mappings, and no core more segments.
constexpr size_t kMostHeaders = size_t{1} << 21;

// Returns how many sections the file claims to have. libelf allocates memory for each.
template <typename FileHeader, typename Section>
uint64_t SectionsOf(int file) {
  FileHeader header;
  Section first;
  if (pread(file, &header, sizeof(header), 0) != sizeof(header)) return 0;
  if (header.e_shnum != 0 || header.e_shoff == 0) return header.e_shnum;
  const auto at = static_cast<off_t>(header.e_shoff);
  return pread(file, &first, sizeof(first), at) == sizeof(first) ? first.sh_size : 0;
}

// The mapping of a file with that address, or null.
const Mapping* FileAt(const std::vector<Mapping>& files, Address address) {
  const auto after =
      std::upper_bound(files.begin(), files.end(), address,
                       [](Address a, const Mapping& file) { return a < file.start; });
  if (after == files.begin()) return nullptr;
  const Mapping& file = *std::prev(after);
  return address < file.end ? &file : nullptr;
}

}  // namespace

CoreImage::CoreImage(const std::string& path, FileSearch files)
    : path_(CleanText(path)), files_(std::move(files)), file_(OpenNamedFile(path)) {
  try {
    struct stat status = {};
    if (fstat(file_, &status) != 0) {
      throw Failure(fmt::format("cannot read {}: {}", path_, strerror(errno)));
    }
    files_.SetUser({.user = status.st_uid, .group = status.st_gid});
    file_bytes_ = static_cast<uint64_t>(status.st_size);
    time_ns_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    ReadHeaders();
  } catch (...) {
    close(file_);
    throw;
  }
}

CoreImage::~CoreImage() { close(file_); }

void CoreImage::ReadHeaders() {
  unsigned char identity[EI_NIDENT] = {};
  if (pread(file_, identity, sizeof(identity), 0) == sizeof(identity) &&
      memcmp(identity, ELFMAG, SELFMAG) == 0 && identity[EI_DATA] != kByteOrder) {
    throw Failure(fmt::format("{} is of a machine with another order of bytes", path_));
  }
  RequireCount(identity[EI_CLASS] == ELFCLASS64 ? SectionsOf<Elf64_Ehdr, Elf64_Shdr>(file_)
                                                : SectionsOf<Elf32_Ehdr, Elf32_Shdr>(file_),
               "section");
  elf_version(EV_CURRENT);
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(elf_begin(file_, ELF_C_READ, nullptr), &elf_end);
  GElf_Ehdr header;
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF ||
      gelf_getehdr(elf.get(), &header) == nullptr) {
    throw Failure(fmt::format("{} is neither a process nor a core file", path_));
  }
  if (header.e_type != ET_CORE) {
    throw Failure(fmt::format("{} is a program or a library, not a core file", path_));
  }
  size_t count = 0;
  if (elf_getphdrnum(elf.get(), &count) != 0 || count == 0 ||
      (header.e_phnum != PN_XNUM && count < header.e_phnum)) {
    throw Failure(
        fmt::format("incomplete: {} ends within its headers, after {} bytes", path_, file_bytes_));
  }
  RequireCount(count, "program");
  RequireRoom(count * (sizeof(GElf_Phdr) + sizeof(Segment) + sizeof(Mapping)), "reading " + path_);
  ReadSegments(elf.get(), count);
  ReadNotes(elf.get());
}

void CoreImage::RequireCount(uint64_t count, const char* what) const {
  if (count <= kMostHeaders) return;
  throw Failure(fmt::format("{} claims to have {} {} headers: it is damaged", path_, count, what));
}

void CoreImage::ReadSegments(Elf* elf, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr part;
    if (gelf_getphdr(elf, static_cast<int>(i), &part) == nullptr) continue;
    const uint64_t file_end = part.p_offset + part.p_filesz;
    if (file_end >= part.p_offset) wanted_bytes_ = std::max(wanted_bytes_, file_end);
    if (part.p_type != PT_LOAD || part.p_vaddr + part.p_memsz <= part.p_vaddr) continue;
    Segment segment{.start = part.p_vaddr,
                    .end = part.p_vaddr + part.p_memsz,
                    .offset = part.p_offset,
                    .file_bytes = std::min(part.p_filesz, part.p_memsz),
                    .readable = (part.p_flags & PF_R) != 0,
                    .writable = (part.p_flags & PF_W) != 0,
                    .executable = (part.p_flags & PF_X) != 0};
    if (segment.offset < file_bytes_) {
      segment.bytes = std::min(segment.file_bytes, file_bytes_ - segment.offset);
    }
    segments_.push_back(segment);
  }
  std::stable_sort(segments_.begin(), segments_.end(),
                   [](const Segment& a, const Segment& b) { return a.start < b.start; });
  // If two segments overlap, the second one is ignored.
  Address end = 0;
  std::erase_if(segments_, [&end](const Segment& segment) {
    if (segment.start < end) return true;
    end = segment.end;
    return false;
  });
}

void CoreImage::ReadNotes(Elf* elf) {
  CoreNotes notes = ReadCoreNotes(elf, file_bytes_);
  info_ = std::move(notes.info);
  threads_ = std::move(notes.threads);
  if (!notes.snapshot.empty()) {
    is_snapshot_ = true;
    RequireRoom(notes.snapshot.size() * kJsonBytes, "reading " + path_);
    facts_ = ParseSnapshot(notes.snapshot);
    info_ = facts_.info;
    time_ns_ = facts_.time_ns;
    for (const MappingUse& use : facts_.mappings) mappings_.push_back(use.mapping);
    for (ThreadRegisters& thread : threads_) {
      const auto name = facts_.thread_names.find(thread.thread);
      if (name != facts_.thread_names.end()) thread.name = name->second;
    }
  }
  info_.has_kernel_figures = is_snapshot_;
  info_.file = path_;
  if (info_.name.empty()) info_.name.push_back('?');
  AddMappings(notes.files);
}

void CoreImage::AddMappings(const std::vector<Mapping>& files) {
  if (is_snapshot_) return;  // a snapshot has all mappings
  for (const Segment& segment : segments_) {
    const Mapping* const file = FileAt(files, segment.start);
    Mapping mapping{.start = segment.start,
                    .end = segment.start + segment.bytes,
                    .readable = segment.readable,
                    .writable = segment.writable,
                    .executable = segment.executable};
    if (file != nullptr) {
      mapping.name = file->name;
      mapping.file_offset = file->file_offset + (segment.start - file->start);
    }
    if (mapping.start < mapping.end) mappings_.push_back(mapping);
    if (mapping.end == segment.end) continue;
    mapping.file_offset += mapping.end - mapping.start;
    mapping.start = mapping.end;
    mapping.end = segment.end;
    mapping.unwritten = segment.readable && segment.file_bytes == 0 && file == nullptr;
    mapping.missing = segment.readable && !mapping.unwritten;
    mapping.readable = false;
    mappings_.push_back(std::move(mapping));
  }
  for (const Mapping& file : files) {
    if (SegmentAt(file.start) != nullptr) continue;
    // gdb's gcore writes neither a segment for the mapping nor its rights.
    mappings_.push_back(file);
    mappings_.back().rights_known = false;
  }
  std::sort(mappings_.begin(), mappings_.end(),
            [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
}

std::vector<std::pair<Address, Address>> CoreImage::Parts() const {
  std::vector<std::pair<Address, Address>> parts;
  for (const Segment& segment : segments_) {
    if (segment.bytes > 0) parts.emplace_back(segment.start, segment.start + segment.bytes);
  }
  return parts;
}

const CoreImage::Segment* CoreImage::SegmentAt(Address address) const {
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), address,
                       [](Address a, const Segment& segment) { return a < segment.start; });
  if (after == segments_.begin()) return nullptr;
  const Segment& segment = *std::prev(after);
  return address < segment.end ? &segment : nullptr;
}

bool CoreImage::Read(Address address, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  while (bytes > 0) {
    size_t n = ReadFile(address, next, bytes);
    if (n == 0) n = contents_.Read(address, next, bytes);
    if (n == 0) {
      NoteMissing(address);
      return false;
    }
    next += n;
    address += n;
    bytes -= n;
  }
  return true;
}

void CoreImage::AddData(Address start, Address end, uint64_t offset,
                        std::vector<std::pair<Address, Address>>* parts) const {
  const auto first = static_cast<off_t>(offset);
  const off_t last = first + static_cast<off_t>(end - start);
  for (off_t at = first; at < last;) {
    const off_t data = lseek(file_, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;  // only a hole follows
    // A file system without holes has data everywhere.
    const off_t begin = data < 0 ? at : data;
    const off_t hole = data < 0 ? last : lseek(file_, data, SEEK_HOLE);
    at = hole < 0 ? last : std::min(hole, last);
    if (begin >= at) return;
    parts->emplace_back(start + static_cast<Address>(begin - first),
                        start + static_cast<Address>(at - first));
  }
}

std::vector<std::pair<Address, Address>> CoreImage::PartsInMemory(Address start, Address end) {
  std::vector<std::pair<Address, Address>> parts;
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), start,
                                  [](Address a, const Segment& each) { return a < each.end; });
  for (Address at = start; at < end; ++segment) {
    // Memory between segments, or at the end of one, may be in the files of the modules.
    const bool is_last = segment == segments_.end() || segment->start >= end;
    const Address in_file = is_last ? end : std::max(at, segment->start);
    if (at < in_file) parts.emplace_back(at, in_file);
    if (is_last) break;
    const Address in_file_end = std::min(end, segment->start + segment->bytes);
    if (in_file < in_file_end) {
      AddData(in_file, in_file_end, segment->offset + (in_file - segment->start), &parts);
    }
    at = std::max(in_file, in_file_end);
    const Address segment_end = std::min(end, segment->end);
    if (at < segment_end) parts.emplace_back(at, segment_end);
    at = std::max(at, segment_end);
  }
  return parts;
}

size_t CoreImage::ReadFile(Address address, void* out, size_t bytes) const {
  const Segment* const segment = SegmentAt(address);
  if (segment == nullptr || address - segment->start >= segment->bytes) return 0;
  const uint64_t at = address - segment->start;
  const size_t wanted = std::min<uint64_t>(bytes, segment->bytes - at);
  const ssize_t n = pread(file_, out, wanted, static_cast<off_t>(segment->offset + at));
  return n < 0 ? 0 : static_cast<size_t>(n);
}

void CoreImage::NoteMissing(Address address) {
  const std::string reason = WhyMissing(address);
  if (reason.empty()) return;
  missing_ = fmt::format("{} lacks the memory at {:#x}: {}", path_, address, reason);
}

bool CoreImage::IsUnwritten(Address address) const {
  const Segment* const segment = SegmentAt(address);
  if (segment == nullptr || segment->file_bytes != 0) return false;
  const Mapping* const mapping = FileAt(mappings_, address);
  return mapping != nullptr && mapping->name.empty();
}

std::string CoreImage::WhyMissing(Address address) {
  const Segment* const segment = SegmentAt(address);
  if (segment == nullptr && FileAt(mappings_, address) == nullptr) return {};
  std::string reason = is_snapshot_
                           ? "the snapshot was made without it"
                           : "it was left out when the core was written (write 0x7f to "
                             "/proc/PID/coredump_filter before, then cores have all but devices)";
  if (segment != nullptr && address - segment->start < segment->file_bytes) reason = Truncation();
  const std::string problem = contents_.ProblemAt(address);
  if (!problem.empty()) reason += "; " + problem;
  return reason;
}

std::string CoreImage::Truncation() const {
  if (file_bytes_ >= wanted_bytes_) return {};
  return fmt::format("the file was truncated, it has {} of {} bytes", file_bytes_, wanted_bytes_);
}

bool CoreImage::HasVariables() const {
  bool has_some = false;
  std::set<std::string> lacking;   // files with a writable mapping that is missing
  std::set<std::string> programs;  // files with a mapping that is not writable: code
  for (const Mapping& mapping : mappings_) {
    if (mapping.name.empty()) continue;
    has_some |= mapping.readable && mapping.writable;
    if (!mapping.writable) programs.insert(mapping.name);
    if (mapping.writable && !mapping.readable) lacking.insert(mapping.name);
  }
  return has_some && std::none_of(lacking.begin(), lacking.end(),
                                  [&](const std::string& name) { return programs.contains(name); });
}

int64_t CoreImage::NowMs(int clock) {
  return is_snapshot_ && clock == facts_.clock ? facts_.now_ms : 0;
}

namespace {

constexpr uint64_t kPieceOfFile = uint64_t{1} << 20;

bool IsZero(const char* bytes, size_t n) {
  return std::all_of(bytes, bytes + n, [](char c) { return c == 0; });
}

// Adds the pages of [start, end) that are not all zeroes; returns their bytes.
uint64_t AddPages(CoreImage& core, Address start, Address end, std::vector<PageRun>* runs) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<char> piece(kPieceOfFile);
  uint64_t bytes = 0;
  for (Address at = start / page * page; at < end; at += kPieceOfFile) {
    const size_t n = std::min(kPieceOfFile, end - at);
    if (!core.Read(at, piece.data(), n)) break;
    for (size_t i = 0; i + page <= n; i += page) {
      if (IsZero(&piece[i], page)) continue;
      const uint64_t number = (at + i) / page;
      const uint64_t next = runs->empty() ? 0 : runs->back().first + runs->back().pages;
      if (number < next) continue;  // one part ends and the next one begins in this page
      bytes += page;
      if (number == next && !runs->empty()) {
        ++runs->back().pages;
      } else {
        runs->push_back({.first = number, .pages = 1});
      }
    }
  }
  return bytes;
}

}  // namespace

PageSource SourceOf(std::vector<PageRun> runs) {
  return [shared = std::make_shared<const std::vector<PageRun>>(std::move(runs))](uint64_t first,
                                                                                  uint64_t end) {
    std::vector<PageRun> found;
    for (auto run = std::upper_bound(
             shared->begin(), shared->end(), first,
             [](uint64_t page, const PageRun& each) { return page < each.first + each.pages; });
         run != shared->end() && run->first < end; ++run) {
      const uint64_t begin = std::max(run->first, first);
      const uint64_t pages = std::min(run->first + run->pages, end) - begin;
      found.push_back({.first = begin, .pages = pages, .possible = run->possible});
    }
    return found;
  };
}

FilePages ReadFilePages(CoreImage& core) {
  if (core.is_snapshot()) return {core.facts().mappings, SourceOf(core.facts().pages)};
  FilePages pages;
  std::vector<PageRun> runs;
  uint64_t left = core.file_bytes();
  for (Mapping& mapping : core.Mappings()) {
    MappingUse use{.mapping = std::move(mapping)};
    if (use.mapping.readable) {
      const uint64_t bytes = use.mapping.end - use.mapping.start;
      if (bytes > left) throw BadImage("parts of the core lie at the same place of the file");
      left -= bytes;
      for (const auto& [start, end] : core.PartsInMemory(use.mapping.start, use.mapping.end)) {
        use.resident_bytes += AddPages(core, start, end, &runs);
      }
      if (use.mapping.writable) use.anonymous_bytes = use.resident_bytes;
    }
    pages.uses.push_back(std::move(use));
  }
  pages.pages = SourceOf(std::move(runs));
  return pages;
}

}  // namespace cli
