// SPDX-License-Identifier: BSD-3-Clause
// The statistics: what they are written from, which is the state of every byte of the heap
// (HeapSnapshot) and facts about the process (ProcessFacts); their formats; and where they go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "base/size_classes.h"
#include "base/text.h"
#include "os/memory/virtual_memory.h"
#include "page_heap/memory_limit.h"
#include "page_heap/page_heap.h"
#include "page_heap/retention.h"
#include "process/instrument_records.h"

namespace tcmalloc {

// The version of this project, not of the gperftools interface.
extern const std::string_view kLibraryVersion;

struct Settings;

// Identifies the process that statistics are about: the library, the program, the
// time, and the kernel's figures for the memory of the whole process, which is more than the heap.
//
// Collecting takes no lock, not even the dynamic linker's, and never allocates; errno is kept.
// Cost: some system calls and a scan of /proc/self/maps, tens of microseconds.
struct ProcessFacts {
  static constexpr size_t kMaxName = 256;

  uint64_t pid = 0;
  int64_t seconds = 0;  // since 1970
  // From the kernel; 0 if /proc is missing. Anonymous memory is resident memory of no file.
  uint64_t resident_bytes = 0;
  uint64_t anonymous_bytes = 0;
  // File names, cut off at kMaxName; empty if unknown.
  char program[kMaxName] = "";
  char library[kMaxName] = "";
  const char* settings = nullptr;  // Settings::given, once they are collected
};

// `settings` outlive the facts.
void CollectProcessFacts(const Settings& settings, ProcessFacts* facts);

// The lines above the text of the statistics; none of them begins with "MALLOC:".
void WriteBanner(const ProcessFacts& facts, TextWriter* out);

// Members of a JSON object, with a comma after each.
void WriteFactsAsJson(const ProcessFacts& facts, TextWriter* out);

struct Heap;

struct HeapStats {
  // Bytes. system = in_use + thread_cache + central + span_tails + page_heap_free + released,
  // always.
  size_t system_bytes = 0;
  // The held bytes of docs/statistics.md: objects that the program holds, each with its usable
  // size. That is the size of its class, or whole pages; for a guarded sample the requested size.
  size_t in_use_bytes = 0;
  size_t thread_cache_bytes = 0;
  size_t central_bytes = 0;
  // After the last object of a span, and in the pages of sampled and guarded objects.
  size_t span_tail_bytes = 0;
  size_t page_heap_free_bytes = 0;
  size_t released_bytes = 0;
  // The part of span_tail_bytes in the pages of sampled small objects and of guarded objects.
  size_t sample_tail_bytes = 0;
  // The part of central_bytes and span_tail_bytes that was released to the OS and not handed out
  // since; a lower bound (see HoleRelease). Objects whose pages are being released count as in use.
  size_t hole_bytes = 0;
  // Parts of page_heap_free_bytes: bytes in empty spans that shards keep, and bytes that are being
  // released.
  size_t kept_span_bytes = 0;
  size_t releasing_bytes = 0;
  // Not part of system_bytes.
  size_t metadata_bytes = 0;
  // The part of metadata_bytes that is the arrays of the thread caches.
  size_t thread_cache_array_bytes = 0;

  size_t large_bytes = 0;  // the part of in_use_bytes that is in objects above kMaxSmallSize
  size_t large_objects = 0;
  // The part of in_use_bytes in sampled small objects, which also count in their size classes.
  size_t sampled_bytes = 0;
  // The part of in_use_bytes in guarded samples, which count in no size class.
  size_t guarded_bytes = 0;
  size_t guarded_objects = 0;
  size_t spans_in_use = 0;
  size_t thread_caches = 0;
  // Totals since the process began. For address space, `growths` and reserved_total_bytes count
  // mappings, also those of memory that was unmapped again. For memory, `commits` and `releases`
  // count how often pages became backed and were released; committed_total_bytes -
  // released_total_bytes is system_bytes - released_bytes - hole_bytes.
  size_t growths = 0;
  size_t reserved_total_bytes = 0;
  size_t commits = 0;
  size_t committed_total_bytes = 0;
  size_t releases = 0;
  size_t released_total_bytes = 0;
  HugepageSetting hugepages;
  size_t hugepage_bytes = 0;
  size_t hugepages_split = 0;
  size_t prefaults = 0;
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

  // Current settings.
  size_t thread_cache_limit_bytes = 0;  // of all thread caches together
  size_t min_thread_cache_bytes = 0;
  // The bytes that each part of the heap may retain beyond the memory in use.
  RetentionShares retention;
  bool releases_at_once = false;
  size_t sample_period_bytes = 0;  // 0: no allocation is sampled
  size_t guarded_sample = 0;       // every n-th sample is guarded; 0: none is

  MemoryLimits limits;
  LimitWatch::Counts hard_limit;
  LimitWatch::Counts soft_limit;

  // The sums that are reported. The first is the free memory in spans in use, tails included.
  size_t free_in_spans_bytes() const { return central_bytes + span_tail_bytes - hole_bytes; }
  size_t unmapped_bytes() const { return released_bytes + hole_bytes; }
  size_t virtual_bytes() const { return system_bytes + metadata_bytes; }
  size_t actual_bytes() const { return virtual_bytes() - unmapped_bytes(); }
};

// A figure, or a sum, as a function, for tables of figures.
template <auto kMember>
size_t Figure(const HeapStats& stats) {
  return std::invoke(kMember, stats);
}

struct SizeClassStats {
  size_t object_size = 0;
  size_t spans = 0;
  size_t in_use_objects = 0;   // sampled ones, which are not in these spans, included
  size_t sampled_objects = 0;  // their part of it
  size_t thread_cache_objects = 0;
  size_t central_objects = 0;

  bool any() const { return spans > 0 || sampled_objects > 0; }
};

// The state of every byte of the heap, as one value.
//
// While threads run, the parts are read one after the other. Each figure was correct at some
// moment. Objects that move between two caches meanwhile may be counted twice or not at all, which
// makes the bytes in use too small or too large. The sums are still consistent, and no figure
// exceeds the sum that it is a part of. When no other thread allocates or frees, all figures are
// exact.
struct HeapSnapshot {
  HeapStats totals;
  std::array<SizeClassStats, kNumSizeClasses> classes;
  FreeSpanCounts free_spans;
};
// A snapshot is on the stack, and a thread may have only 16 KiB of stack.
static_assert(sizeof(HeapSnapshot) <= size_t{6} << 10);

// The sources of HeapStats' figures, as bits.
struct StatsParts {
  // The page heap and the metadata: all figures, limits included, that no other bit below includes.
  // Cost: a lock.
  static constexpr uint8_t kPages = 1;
  // hole_bytes, and with it the correct unmapped_bytes, committed_total_bytes and everything that
  // is computed from them: Cost: a walk over all size classes and shards, if any pages inside used
  // spans were ever released. Needs kPages.
  static constexpr uint8_t kHoles = 32;
  // central_bytes, span_tail_bytes: a walk over all size classes and shards.
  static constexpr uint8_t kClasses = 2;
  // thread_cache_bytes, thread_cache_array_bytes, thread_caches: a walk over all thread caches and
  // their size classes, under a lock.
  static constexpr uint8_t kCaches = 4;
  // thread_caches alone: a walk over a list, under a lock.
  static constexpr uint8_t kCacheCount = 8;
  // Settings, large allocations, memory pressure. Cost: loads, and a lock.
  static constexpr uint8_t kSettings = 16;
  static constexpr uint8_t kAll = kPages | kHoles | kClasses | kCaches | kSettings;
};

// Takes each lock of the heap for a moment. Cost: microseconds, plus the walk over all thread
// caches.
void CollectSnapshot(Heap& heap, HeapSnapshot* snapshot);
// Reads only some parts; figures of the others are 0. in_use_bytes needs kPages, kClasses and
// kCaches; spans_in_use needs kPages and kClasses. Figures of kClasses and kCaches are clamped to
// those of kPages, so they are not read without kPages.
HeapStats CollectStats(Heap& heap, uint8_t parts = StatsParts::kAll);
SizeClassStats CollectSizeClassStats(Heap& heap, SizeClass c);

// Sets in_use_bytes to the bytes of large, sampled and guarded objects plus those of small objects'
// spans, `small_span_bytes`, less the free bytes in these spans. Lowers the figures for free
// objects where they exceed the spans' bytes. Adds sample_tail_bytes to span_tail_bytes.
void BalanceStats(size_t small_span_bytes, HeapStats* stats);

// Writes a snapshot in the format of malloc_stats: see WriteStatsText.
void WriteStats(Heap& heap, int level, TextWriter* out);

// Writes the text of WriteStats to stderr. The second function first writes a banner that
// identifies the process (WriteBanner). The banner needs system calls other than write, which a
// sandbox may forbid to a program that requests statistics itself. So only reports that a setting
// requests have it.
void PrintStats(Heap& heap, int level);
void PrintStatsWithBanner(Heap& heap, int level);

// A HeapSnapshot as text, in each format. These functions neither allocate nor take a lock nor know
// the heap. docs/statistics.md explains every line, and a test compares the two. Cost: a few
// nanoseconds per character; the texts with tables are some 10 KiB long.

// Lines that begin with "MALLOC:": the sums, then single figures. From level 2 on also a line for
// each size class that has spans, and for each length of free spans. A sink gets the part before
// the tables in one piece, if its buffer has room for it.
void WriteStatsText(const HeapSnapshot& snapshot, int level, TextWriter* out);

// One JSON object, without line ends. Facts about the process come first, unless `facts` is null.
void WriteStatsJson(const HeapSnapshot& snapshot, const ProcessFacts* facts, TextWriter* out);

// OpenMetrics 1.0 text, which Prometheus reads. The collector adds the process and the time.
void WriteStatsOpenMetrics(const HeapSnapshot& snapshot, TextWriter* out);

// A named figure of the snapshot, with the same name in JSON and in OpenMetrics. The name of a
// figure in bytes ends in "_bytes".
struct StatsFigure {
  enum class Kind : unsigned char { kGauge, kCounter };

  const char* name;  // of a counter, without the suffix "_total"
  Kind kind;
  const char* help;  // a sentence in plain ASCII, without quotes
  size_t (*value)(const HeapStats& stats);

  const char* suffix() const { return kind == Kind::kCounter ? "_total" : ""; }
};

std::span<const StatsFigure> AllStatsFigures();

// TCMALLOC_STATS_EVERY: writes the statistics as a line of JSON at each interval, in the helper
// thread (process/helper_thread.h). Opens the file for each line and appends the line by one write,
// so processes can share a file, and log rotation can move it.
//
// Cost of a line: a snapshot and its formatting take tens of microseconds, and up to some 30 KiB of
// the helper's stack.

// The value of the setting.
struct StatsSeries {
  int64_t interval_ms = 0;
  std::string_view file;  // empty: stderr
};
// False when `text` is neither INTERVAL nor INTERVAL,FILE.
bool ParseStatsSeries(std::string_view text, StatsSeries* series);

// Starts the series that the setting requests; prints a line on stderr if that fails. Called when
// the library is loaded.
void StartStatsSeries(Heap& heap);

}  // namespace tcmalloc
