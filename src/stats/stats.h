// SPDX-License-Identifier: BSD-3-Clause
// HeapSnapshot: where every byte that came from the system is, as one value. All that the library
// says about its heap, in whichever format (stats_formats.h), is said about such a value.
//
// While threads run, the parts are read one after the other: each is a figure that was true at some
// moment, and what was on its way between two tiers meanwhile may be counted twice or not at all,
// at the cost of the figure for what is in use. The sums hold all the same, and no figure is
// larger than what it is a part of. When the program is quiet all of them are exact.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/size_classes.h"
#include "base/text_writer.h"
#include "heap/pressure_counts.h"
#include "os/memory/hugepages.h"
#include "page/limit_watch.h"
#include "page/memory_limit.h"
#include "page/page_heap.h"
#include "page/retention.h"

namespace tcmalloc {

struct Heap;

struct HeapStats {
  // Bytes. system = in_use + thread_cache + central + span_tails + page_heap_free + released,
  // always.
  size_t system_bytes = 0;
  // Objects that the program holds, rounded up to their size class or to pages.
  size_t in_use_bytes = 0;
  size_t thread_cache_bytes = 0;
  size_t central_bytes = 0;
  size_t span_tail_bytes = 0;  // behind the last object of a span
  size_t page_heap_free_bytes = 0;
  size_t released_bytes = 0;
  // The part of central_bytes and span_tail_bytes that went back to the system and was not handed
  // out since, at least (see HoleRelease). While memory is on its way, its objects are in use.
  size_t hole_bytes = 0;
  // The parts of page_heap_free_bytes in empty spans that shards keep, and that is being released.
  size_t kept_span_bytes = 0;
  size_t releasing_bytes = 0;
  // Not part of system_bytes.
  size_t metadata_bytes = 0;
  // The part of metadata_bytes that is the arrays of the thread caches.
  size_t thread_cache_array_bytes = 0;

  size_t large_bytes = 0;  // the part of in_use_bytes that is in objects above kMaxSmallSize
  size_t large_objects = 0;
  size_t spans_in_use = 0;
  size_t thread_caches = 0;
  // Since the process began. Address space: mappings made, and what was in them, also where free
  // memory was unmapped again. Memory: times that the system put some behind pages, and took it
  // back; the difference of the totals is system_bytes - released_bytes - hole_bytes.
  size_t growths = 0;
  size_t reserved_total_bytes = 0;
  size_t commits = 0;
  size_t committed_total_bytes = 0;
  size_t releases = 0;
  size_t released_total_bytes = 0;
  HugepageSetting hugepages;
  size_t hugepage_bytes = 0;
  size_t hugepages_broken = 0;
  size_t populations = 0;
  // See LargeReports.
  size_t large_allocations = 0;
  size_t large_allocation_reports = 0;
  // See PressureCounts.
  bool listens_to_pressure = false;
  size_t pressure_sources = 0;
  size_t pressure_sources_failed = 0;
  size_t pressure_events = 0;
  std::array<size_t, PressureCounts::kLevels> pressure_actions{};
  size_t pressure_moved_bytes = 0;

  // Settings as they are now.
  size_t thread_cache_limit_bytes = 0;  // of all thread caches together
  size_t min_thread_cache_bytes = 0;
  // What each tier may keep beyond the memory in use.
  RetentionShares retention;
  bool releases_at_once = false;
  size_t sample_period_bytes = 0;  // 0: no allocation is sampled

  MemoryLimits limits;
  LimitWatch::Counts hard_limit;
  LimitWatch::Counts soft_limit;

  // The sums that programs are told. Free memory in spans in use, tails included:
  size_t free_in_spans_bytes() const { return central_bytes + span_tail_bytes - hole_bytes; }
  size_t unmapped_bytes() const { return released_bytes + hole_bytes; }
  size_t virtual_bytes() const { return system_bytes + metadata_bytes; }
  size_t actual_bytes() const { return virtual_bytes() - unmapped_bytes(); }
};

struct SizeClassStats {
  size_t object_size = 0;
  size_t spans = 0;
  size_t in_use_objects = 0;
  size_t thread_cache_objects = 0;
  size_t central_objects = 0;
};

struct HeapSnapshot {
  HeapStats totals;
  std::array<SizeClassStats, kNumSizeClasses> classes;
  FreeSpanCounts free_spans;
};
// It lies on stacks, of which a thread may have 16 KiB.
static_assert(sizeof(HeapSnapshot) <= size_t{6} << 10);

// What the figures of HeapStats are read from, as bits.
struct StatsParts {
  // The page heap and the heap's own records: all that is not named below, limits included. A lock.
  static constexpr uint8_t kPages = 1;
  // hole_bytes, without which unmapped_bytes, committed_total_bytes and all that is computed from
  // them are wrong: a walk over all size classes and shards where there was ever a hole. Needs
  // kPages.
  static constexpr uint8_t kHoles = 32;
  // central_bytes, span_tail_bytes: a walk over all size classes and shards.
  static constexpr uint8_t kClasses = 2;
  // thread_cache_bytes, thread_cache_array_bytes, thread_caches: a walk over all thread caches and
  // their size classes, under a lock.
  static constexpr uint8_t kCaches = 4;
  // thread_caches alone: a walk over a list, under a lock.
  static constexpr uint8_t kCacheCount = 8;
  // Settings, large allocations, memory pressure. Loads, and a lock.
  static constexpr uint8_t kSettings = 16;
  static constexpr uint8_t kAll = kPages | kHoles | kClasses | kCaches | kSettings;
};

// Takes each lock of the heap for a moment. Cost: microseconds, plus the walk over all thread
// caches.
void CollectSnapshot(Heap& heap, HeapSnapshot* snapshot);
// Parts of it. Figures of parts that are left out are 0, and in_use_bytes needs kPages, kClasses
// and kCaches; spans_in_use needs kPages and kClasses. Figures of kClasses and kCaches are
// bounded by what kPages says: without it they are not read.
HeapStats CollectStats(Heap& heap, uint8_t parts = StatsParts::kAll);
SizeClassStats CollectSizeClassStats(Heap& heap, SizeClass c);

// Sets in_use_bytes to what of large objects and of spans of small ones, `small_span_bytes`, is not
// free, and lowers the figures of what is free there as far as they exceed it.
void BalanceStats(size_t small_span_bytes, HeapStats* stats);

// A snapshot in the format of malloc_stats: see WriteStatsText.
void WriteStats(Heap& heap, int level, TextWriter* out);

// Writes that to stderr; the second one below a banner that says which process it is about
// (WriteBanner). The banner takes system calls beyond write, which a program that asks for
// statistics itself may not be allowed in a sandbox: it is for reports that the environment asks
// for.
void PrintStats(Heap& heap, int level);
void PrintStatsWithBanner(Heap& heap, int level);

}  // namespace tcmalloc
