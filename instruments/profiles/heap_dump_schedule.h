// SPDX-License-Identifier: BSD-3-Clause
// HeapDumpSchedule decides when the heap profiler's next file is due: after a number of bytes
// allocated, freed or newly in use, or after a time.
//
// It decides and never writes a file; the caller passes the time. Thread safety: any thread; a hook
// that reads an old value finds a file due a moment later, so all accesses are relaxed. NoteDump
// and Begin are called by one thread at a time. Nothing else is called before the first Begin.
// Cost: two atomic additions per report of traffic, and four loads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/text_writer.h"

namespace tcmalloc {

// The intervals between files; 0 means no file for this reason.
struct HeapDumpIntervals {
  uint64_t allocated_bytes = 0;
  uint64_t freed_bytes = 0;
  uint64_t in_use_bytes = 0;
  uint64_t milliseconds = 0;

  // Returns how many bytes each of `shards` shards may count before it reports them, so that files
  // are late by at most a sixteenth of the smallest interval.
  uint64_t TrafficThreshold(size_t shards) const;
};

class HeapDumpSchedule {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // Bytes that were recorded since the start, as far as they have been reported.
  struct Traffic {
    uint64_t allocated = 0;
    uint64_t freed = 0;
    uint64_t in_use() const { return allocated > freed ? allocated - freed : 0; }
  };

  // Resets the traffic and begins a new schedule.
  void Begin(const HeapDumpIntervals& intervals, uint64_t now_ms);
  // As Begin, but no file is ever due.
  void BeginWithoutDumps();

  // Adds to the traffic. True when a file is due because of it.
  bool Count(uint64_t allocated_bytes, uint64_t freed_bytes) {
    const Traffic traffic = {
        allocated_.fetch_add(allocated_bytes, std::memory_order_relaxed) + allocated_bytes,
        freed_.fetch_add(freed_bytes, std::memory_order_relaxed) + freed_bytes};
    return traffic.allocated >= due_allocated_.load(std::memory_order_relaxed) ||
           traffic.freed >= due_freed_.load(std::memory_order_relaxed) ||
           traffic.in_use() > due_in_use_.load(std::memory_order_relaxed);
  }
  // Whether files can be due by time. If not, no thread has to read the clock.
  bool has_timer() const { return due_ms_.load(std::memory_order_relaxed) != kNever; }
  bool IsTimeDue(uint64_t now_ms) const {
    return now_ms >= due_ms_.load(std::memory_order_relaxed);
  }

  Traffic traffic() const {
    return {allocated_.load(std::memory_order_relaxed), freed_.load(std::memory_order_relaxed)};
  }
  // Writes why a file is due; nothing when none is.
  void WriteReason(const Traffic& traffic, uint64_t now_ms, TextWriter* out) const;
  // Called after a file was written; sets when the next files are due.
  void NoteDump(const Traffic& traffic, const HeapDumpIntervals& intervals, uint64_t now_ms);

 private:
  // Written by hooks.
  std::atomic<uint64_t> allocated_{0};
  std::atomic<uint64_t> freed_{0};
  // Written by NoteDump: a file is due when traffic or time reaches these values; kNever for never.
  // They are zero before the first session, when no thread reads them, so that the object stays in
  // .bss.
  std::atomic<uint64_t> due_allocated_{0};
  std::atomic<uint64_t> due_freed_{0};
  std::atomic<uint64_t> due_in_use_{0};
  std::atomic<uint64_t> due_ms_{0};
  // The most that was in use when a file was written.
  std::atomic<uint64_t> most_in_use_{0};
};

// Writes "N MB what", without a fraction, as gperftools does: scripts look for these words.
void WriteMegabytes(uint64_t bytes, std::string_view what, TextWriter* out);

}  // namespace tcmalloc
