// SPDX-License-Identifier: BSD-3-Clause
#include "image/forked_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace cli {
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

size_t ForkedImage::ReadRanges(std::span<const Range> ranges) {
  const bool in_fork = std::none_of(ranges.begin(), ranges.end(), [this](const Range& range) {
    return PartAt(range.address) != nullptr;
  });
  return in_fork ? fork_->ReadRanges(ranges) : Image::ReadRanges(ranges);
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
