// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/heap_dump_schedule.h"

namespace tcmalloc {
namespace {

uint64_t Later(uint64_t now, uint64_t interval) {
  return interval == 0 ? HeapDumpSchedule::kNever : now + interval;
}

}  // namespace

uint64_t HeapDumpIntervals::TrafficThreshold(size_t shards) const {
  uint64_t least = UINT64_MAX;
  for (const uint64_t interval : {allocated_bytes, freed_bytes, in_use_bytes}) {
    if (interval != 0) least = std::min(least, interval);
  }
  return least / (16 * shards);
}

void HeapDumpSchedule::Begin(const HeapDumpIntervals& intervals, uint64_t now_ms) {
  allocated_.store(0, std::memory_order_relaxed);
  freed_.store(0, std::memory_order_relaxed);
  most_in_use_.store(0, std::memory_order_relaxed);
  NoteDump({}, intervals, now_ms);
}

void HeapDumpSchedule::BeginWithoutDumps() { Begin({}, 0); }

void HeapDumpSchedule::NoteDump(const Traffic& traffic, const HeapDumpIntervals& intervals,
                                uint64_t now_ms) {
  const uint64_t most = std::max(most_in_use_.load(std::memory_order_relaxed), traffic.in_use());
  most_in_use_.store(most, std::memory_order_relaxed);
  due_allocated_.store(Later(traffic.allocated, intervals.allocated_bytes),
                       std::memory_order_relaxed);
  due_freed_.store(Later(traffic.freed, intervals.freed_bytes), std::memory_order_relaxed);
  due_in_use_.store(Later(most, intervals.in_use_bytes), std::memory_order_relaxed);
  due_ms_.store(Later(now_ms, intervals.milliseconds), std::memory_order_relaxed);
}

void HeapDumpSchedule::WriteReason(const Traffic& traffic, uint64_t now_ms, TextWriter* out) const {
  if (traffic.allocated >= due_allocated_.load(std::memory_order_relaxed)) {
    WriteMegabytes(traffic.allocated, "allocated cumulatively", out);
  } else if (traffic.freed >= due_freed_.load(std::memory_order_relaxed)) {
    WriteMegabytes(traffic.freed, "freed cumulatively", out);
  } else if (traffic.in_use() > due_in_use_.load(std::memory_order_relaxed)) {
    out->Text("more than before");
  } else if (IsTimeDue(now_ms)) {
    out->Text("time");
  }
}

void WriteMegabytes(uint64_t bytes, std::string_view what, TextWriter* out) {
  out->Number(bytes >> 20).Text(" MB ").Text(what);
}

}  // namespace tcmalloc
