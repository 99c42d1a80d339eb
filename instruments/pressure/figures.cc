// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/figures.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/text.h"
#include "os/cgroup.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/memory_map.h"
#include "process/heap.h"

namespace tcmalloc {
namespace {

// All lines that are needed from these files are shorter.
using Lines = LineReader<128>;

struct CgroupFigures {
  std::string_view name;      // the wanted figure
  std::string_view own_name;  // used if the wanted one is missing
  std::optional<uint64_t> value;
  std::optional<uint64_t> own_value;
};

void VisitCgroupFigure(std::string_view line, void* context) {
  CgroupFigures* const figures = static_cast<CgroupFigures*>(context);
  MemoryFigure figure;
  if (!ParseMemoryFigure(line, &figure)) return;
  if (figure.name == figures->name) figures->value = figure.value;
  if (figure.name == figures->own_name) figures->own_value = figure.value;
}

struct SystemFigures {
  std::optional<uint64_t> total;
  std::optional<uint64_t> available;
};

void VisitSystemFigure(std::string_view line, void* context) {
  SystemFigures* const figures = static_cast<SystemFigures*>(context);
  MemoryFigure figure;
  if (!ParseMemoryFigure(line, &figure)) return;
  if (figure.name == "MemTotal") figures->total = figure.value;
  if (figure.name == "MemAvailable") figures->available = figure.value;
}

}  // namespace

bool ParseMemoryFigure(std::string_view line, MemoryFigure* figure) {
  std::string_view name = TakeField(&line, ' ');
  if (name.ends_with(':')) name.remove_suffix(1);
  if (name.empty()) return false;
  while (line.starts_with(' ')) line.remove_prefix(1);
  uint64_t value;
  if (!TakeNumber(&line, &value)) return false;
  if (line == " kB") {
    if (value > UINT64_MAX / 1024) return false;
    value *= 1024;
  } else if (!line.empty()) {
    return false;
  }
  figure->name = name;
  figure->value = value;
  return true;
}

std::optional<uint64_t> ReadProcessAnonymousBytes(std::string_view root) {
  const ErrnoKeeper keeper;
  const FilePath path(root, ProcessPath("statm").c_str());
  if (!path.is_whole()) return std::nullopt;
  const std::optional<ProcessMemory> memory = ReadProcessMemory(path.c_str());
  return memory.has_value() ? std::optional(memory->anonymous_bytes) : std::nullopt;
}

std::optional<uint64_t> ReadCgroupAnonymousBytes(CgroupVersion version,
                                                 std::string_view directory) {
  const ErrnoKeeper keeper;
  if (directory.empty()) return std::nullopt;
  const FilePath path(directory, "/memory.stat");
  // Version 1 lists the group's own figures first, then those that include its descendants.
  CgroupFigures figures;
  if (version == CgroupVersion::kV1) {
    figures.name = "total_rss";
    figures.own_name = "rss";
  } else {
    figures.name = "anon";
  }
  Lines lines;
  if (!path.is_whole() || !lines.ForEachLine(path.c_str(), VisitCgroupFigure, &figures)) {
    return std::nullopt;
  }
  return figures.value.has_value() ? figures.value : figures.own_value;
}

std::optional<SystemMemory> ReadSystemMemory(std::string_view root) {
  const ErrnoKeeper keeper;
  const FilePath path(root, "/proc/meminfo");
  SystemFigures figures;
  Lines lines;
  if (!path.is_whole() || !lines.ForEachLine(path.c_str(), VisitSystemFigure, &figures) ||
      !figures.total.has_value() || !figures.available.has_value()) {
    return std::nullopt;
  }
  return SystemMemory{.total_bytes = *figures.total, .available_bytes = *figures.available};
}

namespace {

using Of = PressureThreshold::Of;
constexpr uint64_t kUnknown = PressureFigures::kUnknown;

uint64_t HeapInUse(Heap& heap) {
  const PageStats stats = heap.page_heap.GetStats();
  return stats.system_bytes - stats.free_released_bytes;
}

uint64_t HeapLimit(Heap& heap) {
  const MemoryLimits limits = heap.page_heap.governor()->limits();
  const size_t limit = std::min(limits.soft_bytes, limits.hard_bytes);
  return limit == kNoLimit ? kUnknown : limit;
}

}  // namespace

void ProcessFigures::Begin(const PressureConfig& config) {
  config_ = config;
  FindCgroupDirectories(&directories_, root_);
}

bool ProcessFigures::Needs(Of of) const {
  for (const PressureThreshold& level : config_.levels) {
    if (level.of == of || (level.of == Of::kLimit && of != Of::kBytes)) return true;
  }
  return false;
}

void ProcessFigures::ReadLimitWhenDue(int64_t now_ms) {
  if (limit_was_read_ && now_ms - limit_read_ms_ < kCgroupRereadMs) return;
  const std::optional<uint64_t> limit = ReadCgroupMemoryLimit(root_);
  // If the limit cannot be read now, the last value stays.
  if (limit.has_value()) cgroup_limit_ = *limit == kNoCgroupLimit ? kUnknown : *limit;
  limit_was_read_ = true;
  limit_read_ms_ = now_ms;
}

uint64_t ProcessFigures::CgroupInUse() const {
  std::optional<uint64_t> bytes = ReadCgroupAnonymousBytes(CgroupVersion::kV2, directories_.v2);
  if (!bytes.has_value()) bytes = ReadCgroupAnonymousBytes(CgroupVersion::kV1, directories_.v1);
  // Some containers hide the group's files; the process is at least a part of the group.
  if (!bytes.has_value()) bytes = ReadProcessAnonymousBytes(root_);
  return bytes.value_or(kUnknown);
}

uint64_t ProcessFigures::InUse() const {
  return ReadProcessAnonymousBytes(root_).value_or(HeapInUse(heap_));
}

PressureFigures ProcessFigures::Read(int64_t now_ms) {
  PressureFigures figures;
  if (Needs(Of::kCgroup)) {
    ReadLimitWhenDue(now_ms);
    figures.cgroup_limit = cgroup_limit_;
    if (cgroup_limit_ != kUnknown) figures.cgroup_in_use = CgroupInUse();
  }
  if (Needs(Of::kHeap)) {
    figures.heap_limit = HeapLimit(heap_);
    figures.heap_in_use = HeapInUse(heap_);
  }
  if (Needs(Of::kSystem)) {
    if (const std::optional<SystemMemory> memory = ReadSystemMemory(root_)) {
      figures.system_memory = memory->total_bytes;
      figures.system_in_use =
          memory->total_bytes - std::min(memory->available_bytes, memory->total_bytes);
    }
  }
  if (Needs(Of::kBytes)) {
    figures.process_in_use = ReadProcessAnonymousBytes(root_).value_or(kUnknown);
  }
  return figures;
}

PressureReadings ProcessFigures::ReadLevels(int64_t now_ms) {
  const PressureFigures figures = Read(now_ms);
  PressureReadings readings;
  for (size_t i = 0; i < kPressureLevels; ++i) {
    readings[i] = ReadingFor(config_.levels[i], figures);
  }
  return readings;
}

}  // namespace tcmalloc
