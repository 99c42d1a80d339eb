// SPDX-License-Identifier: BSD-3-Clause
#include "image/process_image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "image/process.h"
#include "image/resident.h"

namespace cli {
namespace {

// Returns by how much the monotonic clocks of the process's time namespace are ahead of the
// machine's.
int64_t ClockOffsetMs(const std::string& process) {
  std::ifstream offsets(fmt::format("/proc/{}/timens_offsets", process));
  for (std::string line; std::getline(offsets, line);) {
    std::istringstream words(line);
    std::string clock;
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    if (words >> clock >> seconds >> nanoseconds && clock == "monotonic") {
      return seconds * 1000 + nanoseconds / 1'000'000;
    }
  }
  return 0;
}

}  // namespace

LiveImage::LiveImage(pid_t pid) : pid_(pid), thread_(ThreadWithMemory(pid)) {
  memory_ = open(fmt::format("/proc/{}/mem", thread_).c_str(), O_RDONLY | O_CLOEXEC);
  if (memory_ < 0) throw Failure(ExplainDenial(pid, errno));
  clock_offset_ms_ = ClockOffsetMs(std::to_string(thread_)) - ClockOffsetMs("self");
  static_cast<void>(Mappings());
}

LiveImage::~LiveImage() { close(memory_); }

bool LiveImage::MayRead(Address address, size_t bytes) {
  for (const auto& [start, end] : served_) {
    const Address first = std::max(start, address);
    const Address last = std::min(end, address + bytes);
    if (first >= last) continue;
    const uint64_t begin = first / kPageBytes;
    uint64_t missing = (last - 1) / kPageBytes + 1 - begin;
    try {
      for (const PageRun& run : OpenTouchedPages(thread_)(begin, begin + missing)) {
        missing -= run.pages;
      }
    } catch (const Failure&) {
    }
    if (missing > 0) return false;
  }
  return true;
}

bool LiveImage::Read(Address address, void* out, size_t bytes) {
  if (!MayRead(address, bytes)) return false;
  char* next = static_cast<char*>(out);
  // A read may end at the border of two mappings.
  while (bytes > 0) {
    iovec local = {next, bytes};
    iovec remote = {reinterpret_cast<void*>(address), bytes};
    const ssize_t n = process_vm_readv(thread_, &local, 1, &remote, 1, 0);
    // Some sandboxes forbid the system call but not the file.
    if (n <= 0) return errno != EFAULT && ReadMuch(address, next, bytes);
    next += n;
    address += static_cast<size_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool LiveImage::ReadMuch(Address address, void* out, size_t bytes) {
  if (!MayRead(address, bytes)) return false;
  char* next = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t n = pread(memory_, next, bytes, static_cast<off_t>(address));
    if (n <= 0) return false;
    next += n;
    address += static_cast<size_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::vector<Mapping> LiveImage::Mappings() {
  thread_ = LivingThread(pid_);
  std::vector<Mapping> mappings = ReadMappings(thread_);
  served_ = ServedRanges(thread_, mappings);
  return mappings;
}

std::vector<std::pair<Address, Address>> LiveImage::PartsInMemory(Address start, Address end) {
  std::vector<std::pair<Address, Address>> parts;
  try {
    for (const PageRun& run :
         OpenPages(thread_)(start / kPageBytes, (end + kPageBytes - 1) / kPageBytes)) {
      parts.emplace_back(std::max(start, run.first * kPageBytes),
                         std::min(end, (run.first + run.pages) * kPageBytes));
    }
  } catch (const Failure&) {
  }
  return parts;
}

int64_t LiveImage::NowMs(int clock) {
  timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  const bool is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 +
         (is_monotonic ? clock_offset_ms_ : 0);
}

namespace {

constexpr size_t kPage = 4096;

}  // namespace

bool CopiedImage::Fill(Address start, Block* block) {
  const size_t part = std::min(block_bytes_, kPage);
  block->contents.resize(block_bytes_);
  block->readable.assign(block_bytes_ / part, true);
  if (source_.Read(start, block->contents.data(), block_bytes_)) return true;
  bool any = false;
  for (size_t i = 0; i < block_bytes_ / part; ++i) {
    const bool readable = source_.Read(start + i * part, block->contents.data() + i * part, part);
    block->readable[i] = readable;
    any |= readable;
  }
  return any;
}

void CopiedImage::PrepareRefresh(std::vector<Guard> guards) {
  guards_ = std::move(guards);
  guard_words_.clear();
  ranges_.clear();
  std::set<Address> with_guards;
  for (const Guard& guard : guards_) {
    const Address start = guard.address / block_bytes_ * block_bytes_;
    const auto block = blocks_.find(start);
    const size_t offset = guard.address - start;
    const bool inside = block != blocks_.end() && offset + guard.bytes <= block_bytes_;
    guard_words_.push_back(inside ? block->second.contents.data() + offset : nullptr);
    if (inside) with_guards.insert(start);
  }
  for (const bool first : {true, false}) {
    for (auto& [start, block] : blocks_) {
      if (with_guards.contains(start) == first) {
        ranges_.push_back({start, block.contents.data(), block_bytes_});
        // The target may have mapped more pages since then. Copy finds those that cannot be read.
        block.readable.assign(block.readable.size(), true);
      }
    }
    if (first) ranges_with_guards_ = ranges_.size();
  }
}

void CopiedImage::Copy(size_t begin, size_t end) {
  for (; begin < end; ++begin) {
    const Range& range = ranges_[begin];
    if (source_.Read(range.address, range.out, range.bytes)) continue;
    Fill(range.address, &blocks_.at(range.address));
  }
}

const Guard* CopiedImage::SetGuard() const {
  for (size_t i = 0; i < guards_.size(); ++i) {
    const char* const word = guard_words_[i];
    if (word == nullptr) continue;
    if (std::any_of(word, word + guards_[i].bytes, [](char c) { return c != 0; })) {
      return &guards_[i];
    }
  }
  return nullptr;
}

const Guard* CopiedImage::Refresh() {
  Copy(0, ranges_with_guards_);
  if (const Guard* const set = SetGuard()) return set;
  Copy(ranges_with_guards_, ranges_.size());
  complete_ = true;
  return nullptr;
}

void CopiedImage::ForEachPart(const std::function<void(Address, std::span<const char>)>& f) const {
  const size_t part = std::min(block_bytes_, kPage);
  for (const auto& [start, block] : blocks_) {
    for (size_t i = 0; i < block.readable.size(); ++i) {
      if (block.readable[i]) f(start + i * part, {block.contents.data() + i * part, part});
    }
  }
}

CopiedImage::Block* CopiedImage::BlockAt(Address start) {
  if (last_ != nullptr && start == last_start_) return last_;
  last_start_ = start;
  last_ = nullptr;
  const auto found = blocks_.find(start);
  if (found != blocks_.end()) return last_ = &found->second;
  if (bytes() >= max_bytes_) {
    throw BadImage(fmt::format("the heap's records take more than {} GiB", max_bytes_ >> 30));
  }
  growth_.Add(block_bytes_);
  Block block;
  if (!Fill(start, &block)) return nullptr;
  complete_ = false;
  return last_ = &blocks_.emplace(start, std::move(block)).first->second;
}

bool CopiedImage::Read(Address address, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  if (address + bytes < address) return false;
  const size_t part = std::min(block_bytes_, kPage);
  while (bytes > 0) {
    const Address start = address / block_bytes_ * block_bytes_;
    const Block* const block = BlockAt(start);
    if (block == nullptr) return false;
    const size_t offset = address - start;
    const size_t n = std::min(bytes, block_bytes_ - offset);
    for (size_t i = offset / part; i <= (offset + n - 1) / part; ++i) {
      if (!block->readable[i]) return false;
    }
    memcpy(next, block->contents.data() + offset, n);
    next += n;
    address += n;
    bytes -= n;
  }
  return true;
}

namespace {

// Excluded memory of this total size is copied in less than a millisecond.
constexpr uint64_t kMostExcludedBytes = uint64_t{1} << 20;

// The kernel's flags of a mapping.
constexpr const char* kNotForked = "dc";
constexpr const char* kWiped = "wf";
constexpr const char* kDroppable = "dp";

// Memory that the kernel may drop at any time holds no pointers.
bool IsWiped(const MappingUse& use) { return use.HasFlag(kWiped) && !use.HasFlag(kDroppable); }

// Adds a line that names the first of the mappings.
void AddLine(const char* what, const std::vector<const Mapping*>& mappings,
             std::vector<std::string>* lines) {
  if (mappings.empty()) return;
  constexpr size_t kNamed = 3;
  std::string line = what;
  for (size_t i = 0; i < std::min(kNamed, mappings.size()); ++i) {
    const Mapping& mapping = *mappings[i];
    line += fmt::format("{} {:#x} to {:#x}", i == 0 ? ":" : ",", mapping.start, mapping.end);
    if (!mapping.name.empty()) line += fmt::format(" ({})", mapping.name);
  }
  if (mappings.size() > kNamed) line += fmt::format(" and {} more", mappings.size() - kNamed);
  lines->push_back(std::move(line));
}

}  // namespace

ForkedImage::ForkedImage(Image& process, const std::vector<MappingUse>& uses) : process_(process) {
  uint64_t left = kMostExcludedBytes;
  for (const MappingUse& use : uses) {
    const Mapping& mapping = use.mapping;
    const uint64_t bytes = mapping.end - mapping.start;
    if (!mapping.readable || !(use.HasFlag(kNotForked) || IsWiped(use)) || bytes > left) continue;
    left -= bytes;
    small_.emplace_back(mapping.start, mapping.end);
  }
}

void ForkedImage::CopyExcluded() {
  excluded_.clear();
  parts_.clear();
  mappings_ = process_.Mappings();
  for (const Mapping& mapping : mappings_) {
    const std::pair range(mapping.start, mapping.end);
    if (std::find(small_.begin(), small_.end(), range) == small_.end()) continue;
    Part part{.start = mapping.start, .bytes = std::string(mapping.end - mapping.start, '\0')};
    if (!process_.Read(part.start, part.bytes.data(), part.bytes.size())) continue;
    excluded_.push_back(range);
    parts_.push_back(std::move(part));
  }
}

void ForkedImage::Open(pid_t fork) { fork_ = std::make_unique<LiveImage>(fork); }

const ForkedImage::Part* ForkedImage::PartAt(Address address) const {
  for (const Part& part : parts_) {
    if (part.start <= address && address - part.start < part.bytes.size()) return &part;
  }
  return nullptr;
}

bool ForkedImage::Read(Address address, void* out, size_t bytes) {
  const Part* const part = PartAt(address);
  if (part == nullptr) return fork_->Read(address, out, bytes);
  const uint64_t offset = address - part->start;
  if (part->bytes.size() - offset < bytes) return false;
  memcpy(out, part->bytes.data() + offset, bytes);
  return true;
}

std::vector<std::string> ForkedImage::FindLacking(const Mirror& copy) const {
  const std::vector<MappingUse> uses = ReadSmaps(fork_->pid());
  std::vector<const Mapping*> not_forked;
  std::vector<const Mapping*> shared;
  for (const Mapping& mapping : mappings_) {
    const std::pair range(mapping.start, mapping.end);
    if (!copy.Copies(mapping)) continue;
    if (mapping.shared) {
      shared.push_back(&mapping);
      continue;
    }
    if (std::find(excluded_.begin(), excluded_.end(), range) != excluded_.end()) continue;
    const auto use = std::upper_bound(
        uses.begin(), uses.end(), mapping.start,
        [](Address address, const MappingUse& each) { return address < each.mapping.end; });
    const bool is_there =
        use != uses.end() && use->mapping.start <= mapping.start && use->mapping.end >= mapping.end;
    if (!is_there || IsWiped(*use)) not_forked.push_back(&mapping);
  }
  std::vector<std::string> lines;
  AddLine("memory that the program keeps out of forks (MADV_DONTFORK, MADV_WIPEONFORK) is missing",
          not_forked, &lines);
  AddLine("memory that is shared with other processes went on changing while it was copied", shared,
          &lines);
  return lines;
}

}  // namespace cli
