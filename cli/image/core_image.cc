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

namespace cli {
namespace {

constexpr unsigned char kByteOrder =
    std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

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

CoreImage::CoreImage(const std::string& path) : path_(path) {
  // Opening a pipe would wait.
  file_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file_ < 0) throw Failure(fmt::format("cannot read {}: {}", path, strerror(errno)));
  try {
    struct stat status = {};
    if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw Failure(fmt::format("{} is neither a process nor a core file", path));
    }
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
  if (header.e_ident[EI_DATA] != kByteOrder) {
    throw Failure(fmt::format("{} is of a machine with another order of bytes", path_));
  }
  size_t count = 0;
  if (elf_getphdrnum(elf.get(), &count) != 0 || count == 0 ||
      (header.e_phnum != PN_XNUM && count < header.e_phnum)) {
    throw Failure(
        fmt::format("incomplete: {} ends within its headers, after {} bytes", path_, file_bytes_));
  }
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr part;
    if (gelf_getphdr(elf.get(), static_cast<int>(i), &part) == nullptr) continue;
    const uint64_t file_end = part.p_offset + part.p_filesz;
    if (file_end >= part.p_offset) wanted_bytes_ = std::max(wanted_bytes_, file_end);
    if (part.p_type != PT_LOAD || part.p_vaddr + part.p_memsz <= part.p_vaddr) continue;
    Segment segment{.start = part.p_vaddr,
                    .end = part.p_vaddr + part.p_memsz,
                    .offset = part.p_offset,
                    .file_bytes = std::min(part.p_filesz, part.p_memsz),
                    .readable = (part.p_flags & PF_R) != 0,
                    .writable = (part.p_flags & PF_W) != 0};
    if (segment.offset < file_bytes_) {
      segment.bytes = std::min(segment.file_bytes, file_bytes_ - segment.offset);
    }
    segments_.push_back(segment);
  }
  std::stable_sort(segments_.begin(), segments_.end(),
                   [](const Segment& a, const Segment& b) { return a.start < b.start; });
  // Of segments that overlap the second one is not looked at.
  Address end = 0;
  std::erase_if(segments_, [&end](const Segment& segment) {
    if (segment.start < end) return true;
    end = segment.end;
    return false;
  });
  CoreNotes notes = ReadCoreNotes(elf.get(), file_bytes_);
  info_ = std::move(notes.info);
  if (!notes.snapshot.empty()) {
    is_snapshot_ = true;
    facts_ = ParseSnapshot(notes.snapshot);
    info_ = facts_.info;
    time_ns_ = facts_.time_ns;
    for (const MappingUse& use : facts_.mappings) mappings_.push_back(use.mapping);
  }
  info_.has_kernel_figures = is_snapshot_;
  info_.file = path_;
  if (info_.name.empty()) info_.name.push_back('?');
  AddMappings(notes.files);
}

void CoreImage::AddMappings(const std::vector<Mapping>& files) {
  if (is_snapshot_) return;  // it has them
  for (const Segment& segment : segments_) {
    const Mapping* const file = FileAt(files, segment.start);
    Mapping mapping{.start = segment.start,
                    .end = segment.start + segment.bytes,
                    .readable = segment.readable,
                    .writable = segment.writable};
    if (file != nullptr) {
      mapping.name = file->name;
      mapping.file_offset = file->file_offset + (segment.start - file->start);
    }
    if (mapping.start < mapping.end) mappings_.push_back(mapping);
    if (mapping.end == segment.end) continue;
    mapping.file_offset += mapping.end - mapping.start;
    mapping.start = mapping.end;
    mapping.end = segment.end;
    mapping.readable = false;
    mappings_.push_back(std::move(mapping));
  }
  for (const Mapping& file : files) {
    if (SegmentAt(file.start) == nullptr) mappings_.push_back(file);
  }
  std::sort(mappings_.begin(), mappings_.end(),
            [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
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
    const Segment* const segment = SegmentAt(address);
    const uint64_t at = segment == nullptr ? 0 : address - segment->start;
    if (segment == nullptr || at >= segment->bytes) {
      NoteMissing(address, segment);
      return false;
    }
    const size_t wanted = std::min<uint64_t>(bytes, segment->bytes - at);
    const ssize_t n = pread(file_, next, wanted, static_cast<off_t>(segment->offset + at));
    if (n <= 0) {
      NoteMissing(address, segment);
      return false;
    }
    next += n;
    address += static_cast<size_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

void CoreImage::NoteMissing(Address address, const Segment* segment) {
  if (segment == nullptr && FileAt(mappings_, address) == nullptr) return;
  std::string reason = is_snapshot_ ? "the snapshot was made without it"
                                    : "it was left out when the core was written "
                                      "(/proc/PID/coredump_filter)";
  if (segment != nullptr && address - segment->start < segment->file_bytes) reason = Truncation();
  missing_ = fmt::format("{} lacks the memory at {:#x}: {}", path_, address, reason);
}

std::string CoreImage::Truncation() const {
  if (file_bytes_ >= wanted_bytes_) return {};
  return fmt::format("the file was truncated, it has {} of {} bytes", file_bytes_, wanted_bytes_);
}

bool CoreImage::HasVariables() const {
  bool has_some = false;
  std::set<std::string> lacking;   // files with a writable mapping that is not here
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

}  // namespace cli
