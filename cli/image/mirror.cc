// SPDX-License-Identifier: BSD-3-Clause
#include "image/mirror.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "image/open_file.h"
#include "image/resident.h"

namespace cli {
namespace {

// One system call copies less than 2 GiB.
constexpr size_t kMostAtOnce = size_t{64} << 20;
constexpr Address kOwnWords = Address{1} << 62;

char* MapLocal(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Failure(
        fmt::format("there is no room for a copy of {} bytes: {}", bytes, strerror(errno)));
  }
  // Children of this program do not read this memory, and a fork would copy its page tables.
  static_cast<void>(madvise(memory, bytes, MADV_DONTFORK));
  return static_cast<char*>(memory);
}

bool IsIn(const std::vector<Range>& runs, Address address) {
  const auto after =
      std::upper_bound(runs.begin(), runs.end(), address,
                       [](Address a, const Range& run) { return a < run.address + run.bytes; });
  return after != runs.end() && after->address <= address;
}

}  // namespace

Mirror::~Mirror() { Clear(); }

void Mirror::Clear() {
  for (const Area& area : areas_) {
    if (area.local != nullptr) munmap(area.local, area.end - area.start);
  }
  areas_.clear();
}

bool Mirror::MayHavePointers(const Mapping& mapping) {
  if (mapping.shared || !mapping.WasReadable()) return false;
  if (mapping.name.empty() || mapping.name == "[heap]" || mapping.name == "[stack]") return true;
  if (mapping.name[0] == '[') return mapping.name.starts_with("[anon:");
  if (mapping.name.starts_with("/dev/") && !mapping.name.starts_with("/dev/zero") &&
      !mapping.name.starts_with("/dev/shm/")) {
    return false;
  }
  return mapping.writable || !mapping.executable;
}

bool Mirror::IsWanted(const Mapping& mapping) const {
  return mapping.readable && std::any_of(wanted_.begin(), wanted_.end(), [&](const auto& range) {
           return range.first < mapping.end && mapping.start < range.second;
         });
}

// Mappings that have not changed keep their memory in the mirror.
void Mirror::Map(const std::vector<Mapping>& mappings) {
  std::vector<Area> old;
  old.swap(areas_);
  mappings_ = mappings;
  auto same = old.begin();
  for (const Mapping& mapping : mappings) {
    if (!Copies(mapping)) continue;
    const bool wanted = IsWanted(mapping);
    const bool is_file = !mapping.name.empty() && mapping.name[0] != '[';
    // A core file lacks the pages of files that the process did not write.
    if (mapping.missing && is_file && !mapping.writable) continue;
    Area area{.start = mapping.start,
              .end = mapping.end,
              .of_file = is_file && !wanted,
              .shared = mapping.shared,
              .file_offset = mapping.file_offset,
              .missing = mapping.missing,
              .unwritten = mapping.unwritten};
    while (same != old.end() && same->start < area.start) ++same;
    if (same != old.end() && same->start == area.start && same->end == area.end) {
      area.local = std::exchange(same->local, nullptr);
    }
    areas_.push_back(std::move(area));
    Area& added = areas_.back();
    if (added.local == nullptr && !added.missing) added.local = MapLocal(added.end - added.start);
  }
  for (const Area& area : old) {
    if (area.local != nullptr) munmap(area.local, area.end - area.start);
  }
}

void Mirror::FindRuns(pid_t pid, const std::vector<std::pair<Address, Address>>& whole) {
  const auto add = [](Area* area, Address start, Address end) {
    for (Address at = start; at < end;) {
      const size_t bytes = std::min<Address>(kMostAtOnce, end - at);
      area->runs.push_back({at, area->local + (at - area->start), bytes});
      at += bytes;
    }
  };
  if (pid_ == 0) {
    for (Area& area : areas_) {
      if (area.missing || area.unwritten) continue;
      if (parts_.empty()) {
        // The holes of a core are zeroes, as the mirror's memory is.
        for (const auto& [start, end] : source_.PartsInMemory(area.start, area.end)) {
          add(&area, start, end);
        }
      }
      for (auto part =
               std::upper_bound(parts_.begin(), parts_.end(), area.start,
                                [](Address a, const auto& each) { return a < each.second; });
           part != parts_.end() && part->first < area.end; ++part) {
        add(&area, std::max(area.start, part->first), std::min(area.end, part->second));
      }
    }
    return;
  }
  unknown_bytes_ = 0;
  // The touched pages of shared memory are those of the process itself: a fork has not touched
  // them.
  const pid_t thread = LivingThread(pid_);
  const PageSource shared = OpenTouchedPages(pid_);
  const PageSource touched = OpenTouchedPages(pid);
  const PageSource written = OpenWrittenPages(pid);
  for (Area& area : areas_) {
    if (std::find(whole.begin(), whole.end(), std::pair(area.start, area.end)) != whole.end()) {
      add(&area, area.start, area.end);
      continue;
    }
    const PageSource& pages = area.of_file ? written : touched;
    try {
      for (const PageRun& run : area.shared
                                    ? SharedPages(area, thread, shared)
                                    : pages(area.start / kPageBytes, area.end / kPageBytes)) {
        add(&area, std::max(area.start, run.first * kPageBytes),
            std::min(area.end, (run.first + run.pages) * kPageBytes));
      }
    } catch (const RangeTooLong&) {
      munmap(std::exchange(area.local, nullptr), area.end - area.start);
      area.missing = true;
      unknown_bytes_ += area.end - area.start;
    }
  }
}

std::vector<PageRun> Mirror::SharedPages(const Area& area, pid_t thread,
                                         const PageSource& touched) {
  const std::string path =
      fmt::format("/proc/{}/map_files/{:x}-{:x}", thread, area.start, area.end);
  // The process may have put a device there, or a lease on the file.
  const int file = OpenRegularFile(AT_FDCWD, path, Resolve::kLinksOfKernel).descriptor;
  if (file < 0) {
    shared_pages_unknown_ = true;
    return touched(area.start / kPageBytes, area.end / kPageBytes);
  }
  std::vector<PageRun> runs;
  const auto first = static_cast<off_t>(area.file_offset);
  const off_t end = first + static_cast<off_t>(area.end - area.start);
  for (off_t at = first; at < end;) {
    const off_t data = lseek(file, at, SEEK_DATA);
    if (data < 0 || data >= end) break;
    at = std::min(end, lseek(file, data, SEEK_HOLE));
    if (at <= data) break;
    const uint64_t page = (area.start + static_cast<uint64_t>(data - first)) / kPageBytes;
    const uint64_t last = (area.start + static_cast<uint64_t>(at - first) - 1) / kPageBytes;
    runs.push_back({.first = page, .pages = last + 1 - page});
  }
  close(file);
  return runs;
}

uint64_t Mirror::Plan() {
  // Memory that an earlier attempt copied must not be mistaken for zeroes.
  Clear();
  Map(source_.Mappings());
  FindRuns(pid_, {});
  uint64_t bytes = 0;
  ForEachRun([&bytes](const Range& run) { bytes += run.bytes; });
  return bytes;
}

void Mirror::Prepare() {
  for (Area& area : areas_) {
    for (const Range& run : area.runs) {
      // If the call is missing (before Linux 5.14), the copy itself backs the pages.
      static_cast<void>(madvise(run.out, run.bytes, MADV_POPULATE_WRITE));
    }
    area.runs.clear();
  }
}

void Mirror::Copy(Image& image, pid_t pid, const std::vector<std::pair<Address, Address>>& whole) {
  copied_bytes_ = unread_bytes_ = 0;
  shared_pages_unknown_ = false;
  Map(image.Mappings());
  FindRuns(pid, whole);
  for (const Area& area : areas_) {
    for (const Range& run : area.runs) {
      if (image.ReadMuch(run.address, run.out, run.bytes)) {
        copied_bytes_ += run.bytes;
      } else {
        CopyPages(image, pid, run);
      }
    }
  }
}

void Mirror::CopyPages(Image& image, pid_t pid, const Range& run) {
  for (size_t offset = 0; offset < run.bytes; offset += kPageBytes) {
    const size_t bytes = std::min<size_t>(kPageBytes, run.bytes - offset);
    if (image.ReadMuch(run.address + offset, run.out + offset, bytes)) {
      copied_bytes_ += bytes;
    } else if (pid == 0 || !IsGuardPage(pid, run.address + offset)) {
      unread_bytes_ += bytes;
    }
  }
}

Address Mirror::AddWords(const std::string& bytes) {
  const Address start = areas_.empty() ? kOwnWords : std::max(kOwnWords, areas_.back().end);
  const size_t whole = (bytes.size() + kPageBytes) / kPageBytes * kPageBytes;
  Area area{.start = start, .end = start + whole, .local = MapLocal(whole)};
  memcpy(area.local, bytes.data(), bytes.size());
  area.runs.push_back({start, area.local, bytes.size()});
  areas_.push_back(std::move(area));
  return start;
}

const Mirror::Area* Mirror::FirstAreaAfter(Address address) const {
  const auto after = std::upper_bound(areas_.begin(), areas_.end(), address,
                                      [](Address a, const Area& area) { return a < area.end; });
  return after == areas_.end() ? nullptr : &*after;
}

const Mirror::Area* Mirror::AreaAt(Address address) const {
  const Area* const area = FirstAreaAfter(address);
  return area != nullptr && area->start <= address ? area : nullptr;
}

bool Mirror::IsZero(const Area& area) {
  return std::all_of(area.runs.begin(), area.runs.end(), [](const Range& run) {
    return std::all_of(run.out, run.out + run.bytes, [](char each) { return each == 0; });
  });
}

bool Mirror::Read(Address address, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  if (address + bytes < address) return false;
  while (bytes > 0) {
    const Area* const area = AreaAt(address);
    const bool mirrored = area != nullptr && !area->missing;
    size_t n = std::min<size_t>(bytes, kPageBytes - address % kPageBytes);
    if (mirrored && !area->of_file) n = std::min<size_t>(bytes, area->end - address);
    if (mirrored && (!area->of_file || IsIn(area->runs, address))) {
      memcpy(next, area->local + (address - area->start), n);
    } else if (!source_.Read(address, next, n)) {
      // An untouched page of a file has the contents of the file, at any moment.
      return false;
    }
    next += n;
    address += n;
    bytes -= n;
  }
  return true;
}

}  // namespace cli
