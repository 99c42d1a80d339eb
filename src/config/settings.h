// SPDX-License-Identifier: BSD-3-Clause
// The settings, which environment variables set. Each variable is a row of
// config/settings_table.h, with its default. This file has the members that store the values, and
// the functions that read them. ApplySettings (process/heap.cc) passes them to the parts
// of the heap.
//
// An invalid value, a value out of range and an unknown variable TCMALLOC_... cause one line on
// stderr each; the default is used and the program continues. So does a misspelt variable.
// Variables of other releases of this library's ABI that do not apply here are known and ignored
// silently.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text.h"
#include "base/units.h"
#include "os/stack_trace.h"

namespace tcmalloc {

// Room for a text setting and the zero after it.
inline constexpr size_t kSettingTextBytes = 256;

// The values of HEAPCHECK (docs/leak-checker.md).
enum class HeapCheckMode : uint8_t { kOff, kMinimal, kNormal, kStrict, kDraconian, kAsIs, kLocal };

// When the process gets a background thread (process/background_thread.h): with its second thread,
// never, or when the library is loaded.
enum class BackgroundMode : uint8_t { kAuto, kNever, kAtLoad };

struct BytesOrPercent {
  size_t bytes;
  uint32_t percent;  // 0: no percentage; else `bytes` is no limit
  bool operator==(const BytesOrPercent&) const = default;
};

// The default of TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD, as in gperftools. Larger allocations are
// more often a mistake than not.
inline constexpr size_t kLargeReportBytes = 1_GiB;

// The greatest TCMALLOC_RELEASE_RATE.
inline constexpr double kMaxReleaseRate = 1000;

// While an equal share of the budget is less than this, no thread cache's limit is lowered below it
// (CacheBudget::LowerBound). More would strand 1 GiB in 2,000 threads (decision 0009).
inline constexpr size_t kMinPerCacheBytes = 64_KiB;

// Members without an initialiser have their defaults in the table, from which the constructor sets
// them.
struct Settings {
  Settings();

  bool aggressive_decommit;
  BackgroundMode background;
  bool check;
  bool control;
  bool disable_memory_release;
  // The leak checker, which only the full library has.
  HeapCheckMode heap_check;
  bool heap_check_after_destructors;
  char heap_check_dump_directory[kSettingTextBytes];
  bool heap_check_identify_leaks;
  bool heap_check_ignore_global_live;
  bool heap_check_ignore_thread_live;
  uint64_t heap_check_max_leaks;
  int64_t heap_check_max_pointer_offset;       // negative: no limit
  size_t heap_check_pointer_source_alignment;  // at most a pointer's alignment
  bool heap_check_run_under_gdb;
  bool heap_check_show_contents;
  char pprof_path[kSettingTextBytes];
  // The heap profiler, which only the full library has. Without a prefix, only the program itself
  // can start it.
  char heap_profile[kSettingTextBytes];
  bool heap_profile_use_pid;
  int32_t heap_profile_signal;
  bool heap_profile_cleanup;
  // 0 means no interval.
  uint64_t heap_profile_allocation_interval;
  uint64_t heap_profile_deallocation_interval;
  uint64_t heap_profile_inuse_interval;
  uint64_t heap_profile_time_interval_seconds;
  // Variables by which job launchers number the processes that they start.
  char pmix_rank[kSettingTextBytes];
  char pmi_rank[kSettingTextBytes];
  char slurm_process[kSettingTextBytes];
  bool in_slurm_job;
  bool has_open_mpi;
  // Guarded samples, which only the full library has. Every n-th sample is guarded; with 0, none
  // is.
  size_t guarded_sample;
  bool guarded_report;
  bool hints;
  bool hugepages;
  // LargeReports::kNever means no reports. Lines are written only if the variable is set.
  size_t large_report_threshold_bytes;
  bool large_report_lines = false;
  char devmem_device[kSettingTextBytes];
  uint64_t devmem_limit_bytes;
  uint64_t devmem_start_bytes;
  bool memfs_abort_on_fail;
  bool memfs_disable_fallback;
  bool memfs_ignore_mmap_fail;
  uint64_t memfs_limit_bytes;
  bool memfs_map_private;
  char memfs_path[kSettingTextBytes];
  bool membarrier;
  int64_t max_total_thread_cache_bytes;  // negative: the thread caches' share
  // No environment variable sets it.
  size_t min_thread_cache_bytes = kMinPerCacheBytes;
  int32_t malloc_stats;
  // The debug libraries (instruments/debug/).
  size_t free_queue_bytes;
  bool page_fence;
  bool page_fence_never_reclaim;
  bool page_fence_readable;
  bool reclaim_memory;
  bool symbolize_stack_trace;
  double release_rate;
  // kNoLimit means no limit.
  size_t hard_limit_bytes;
  BytesOrPercent soft_limit;  // a percentage is of the container's limit
  size_t sample_period_bytes;
  char pressure[kSettingTextBytes];
  // Profiles of samples in files (instruments/profiles/process_profiles.h), which only the full
  // library writes.
  char profile_files[kSettingTextBytes];
  bool report_at_term;
  size_t retention_bytes;  // 0: derived from the memory in use
  char stats_every[kSettingTextBytes];
  bool small;
  bool skip_mmap;
  bool skip_sbrk;
  StackTraceMethod stack_trace_method;
  // NAME=VALUE of each variable that differs from its default, separated by spaces; ends in "..."
  // if there is no room for all.
  char given[512] = "";
};

// Sets the values that TCMALLOC_SMALL=1 stands for.
void UseSmallPreset(Settings* settings);

// Reads the process's environment. Never allocates. Requires: the program runs without raised
// privileges (os/process.h). In a setuid program the environment is the text of a user who may
// not read the memory of the process, write its files or decide how it behaves.
void ReadSettings(Settings* settings);

// Reads one variable into `settings`. If the value is invalid, writes the reason to `complaint`,
// which otherwise stays empty.
void ReadSetting(const char* name, size_t name_length, const char* value, Settings* settings,
                 TextWriter* complaint);

// Writes one line to stderr with the names of the variables that differ from their defaults and
// have an effect only in the full library; nothing if there are none. For the minimal library.
void ReportSettingsForFullLibrary();

}  // namespace tcmalloc
