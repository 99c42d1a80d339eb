// SPDX-License-Identifier: BSD-3-Clause
// The settings: what the environment's variables ask for. A variable is one row of
// config/settings_table.h, with its default; this is where the rows' values lie, and how they are
// read. ApplySettings (heap/apply_settings.h) hands them to the heap's parts.
//
// A value that cannot be read or lies out of range, and a TCMALLOC_ variable that does not exist,
// cost one line on stderr; the default is used and the program goes on. So does a variable that is
// named almost as one of these. Variables of other releases of this library's ABI that do not apply
// here are known and ignored silently.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text_writer.h"
#include "base/tuning.h"
#include "os/stack_trace.h"

namespace tcmalloc {

// Room for a text setting and the zero after it.
inline constexpr size_t kSettingTextBytes = 256;

// What HEAPCHECK asks for (docs/leak-checker.md).
enum class HeapCheckMode : uint8_t { kOff, kMinimal, kNormal, kStrict, kDraconian, kAsIs, kLocal };

// When the process gets a background thread (heap/background_thread.h): with its second thread,
// never, or when the library is loaded.
enum class BackgroundMode : uint8_t { kAuto, kNever, kAtLoad };

struct BytesOrPercent {
  size_t bytes;
  uint32_t percent;  // 0 for none; else `bytes` has no limit
  bool operator==(const BytesOrPercent&) const = default;
};

// Members without an initialiser have their defaults in the table, from which the constructor sets
// them.
struct Settings {
  Settings();

  bool aggressive_decommit;
  BackgroundMode background;
  bool check;
  bool disable_memory_release;
  // The leak checker, which only the full library has.
  HeapCheckMode heap_check;
  bool heap_check_after_destructors;
  char heap_check_dump_directory[kSettingTextBytes];
  bool heap_check_identify_leaks;
  bool heap_check_ignore_global_live;
  bool heap_check_ignore_thread_live;
  uint64_t heap_check_max_leaks;
  int64_t heap_check_max_pointer_offset;       // below 0: anywhere
  size_t heap_check_pointer_source_alignment;  // that of a pointer where that is less
  bool heap_check_run_under_gdb;
  bool heap_check_show_contents;
  bool heap_check_test_pointer_alignment;
  char pprof_path[kSettingTextBytes];
  // The heap profiler, which only the full library has. No prefix: it starts when the program says.
  char heap_profile[kSettingTextBytes];
  bool heap_profile_use_pid;
  int32_t heap_profile_signal;
  bool heap_profile_cleanup;
  // 0: none.
  uint64_t heap_profile_allocation_interval;
  uint64_t heap_profile_deallocation_interval;
  uint64_t heap_profile_inuse_interval;
  uint64_t heap_profile_time_interval_seconds;
  // How those who start many processes at once tell them apart.
  char pmix_rank[kSettingTextBytes];
  char pmi_rank[kSettingTextBytes];
  char slurm_process[kSettingTextBytes];
  bool in_slurm_job;
  bool has_open_mpi;
  bool hugepages;
  // LargeReports::kNever for none. Lines only where the variable is set.
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
  int64_t max_total_thread_cache_bytes;  // below 0: the thread caches' share
  // No variables of their own.
  size_t min_thread_cache_bytes = kTuning.cache_budget.min_per_cache_bytes;
  int32_t malloc_stats;
  double release_rate;
  // kNoLimit for none.
  size_t hard_limit_bytes;
  BytesOrPercent soft_limit;  // a percentage of what the container may have
  size_t sample_period_bytes;
  uint64_t sample_seed;
  char pressure[kSettingTextBytes];
  // Profiles of samples, to files (tools/profiler/profile_files.h): in the full library only.
  char profile_files[kSettingTextBytes];
  bool report_at_term;
  size_t retention_bytes;  // 0: by the memory in use
  char stats_every[kSettingTextBytes];
  bool small;
  bool skip_mmap;
  bool skip_sbrk;
  StackTraceMethod stack_trace_method;
  bool stack_trace_method_verbose;
  // Variables that are set to something else than their defaults, NAME=VALUE, with a space between
  // two; ends in "..." where there are more.
  char given[512] = "";
};

// What TCMALLOC_SMALL=1 stands for.
void UseSmallPreset(Settings* settings);

// Reads the process's environment. Never allocates. A program with more rights than its user
// (`raised_privileges`) does not open files of the user's choice: what names them, and what goes
// with that, is not read.
void ReadSettings(bool raised_privileges, Settings* settings);

// Reads one variable into `settings`; a mistake is described in `complaint`, which stays empty
// otherwise.
void ReadSetting(const char* name, size_t name_length, const char* value, Settings* settings,
                 TextWriter* complaint);

// Writes one line to stderr with the names of the variables that are set, not to their defaults,
// and that only the full library acts on; nothing where there is none. For the minimal library.
void ReportSettingsForFullLibrary();

// The table as Markdown, which is docs/settings.md (settings_documentation.cc, which only tests
// have).
void WriteSettingsDocumentation(TextWriter* out);

}  // namespace tcmalloc
