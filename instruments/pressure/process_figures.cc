// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/process_figures.h"

#include <algorithm>
#include <optional>

#include "instruments/pressure/memory_figures.h"
#include "os/cgroup.h"
#include "process/heap.h"

namespace tcmalloc {
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
