// SPDX-License-Identifier: BSD-3-Clause
// The settings: every variable that the library reads, in one table. From it come the parsing, the
// defaults, the ranges and the documentation (docs/settings.md is what WriteSettingsDocumentation
// prints; a test compares them).
//
// A value that cannot be read or lies out of range, and a TCMALLOC_ variable that does not exist,
// cost one line on stderr; the default is used and the program goes on. So does a variable that is
// named almost as one of these. Variables of other releases
// of this library's ABI that do not apply here, or not yet, are known and ignored silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "cache/cache_budget.h"
#include "os/stack_trace.h"
#include "page/memory_limit.h"
#include "runtime/large_reports.h"

namespace tcmalloc {

// Room for a text setting and the zero behind it.
inline constexpr size_t kSettingTextBytes = 256;

// What caches may claim that ended threads have left for threads to come: a thread that lives for a
// hundred objects spends half of its time on getting a cache filled and emptied again. Some pools
// of threads' worth; not measured.
inline constexpr size_t kInheritanceBytes = size_t{2} << 20;

// What HEAPCHECK asks for (docs/leak-checker.md).
enum class HeapCheckMode : uint8_t { kOff, kMinimal, kNormal, kStrict, kDraconian, kAsIs, kLocal };

// When the process gets a background thread (runtime/background_thread.h): with its second thread,
// never, or when the library is loaded.
enum class BackgroundMode : uint8_t { kAuto, kNever, kAtLoad };

struct Settings {
  bool aggressive_decommit = false;
  BackgroundMode background = BackgroundMode::kAuto;
  bool check = false;
  bool disable_memory_release = false;
  // The leak checker, which only the full library has.
  HeapCheckMode heap_check = HeapCheckMode::kOff;
  bool heap_check_after_destructors = false;
  char heap_check_dump_directory[kSettingTextBytes] = "/tmp";
  bool heap_check_identify_leaks = false;
  bool heap_check_ignore_global_live = true;
  bool heap_check_ignore_thread_live = true;
  uint64_t heap_check_max_leaks = 20;
  int64_t heap_check_max_pointer_offset = 1024;    // below 0: anywhere
  size_t heap_check_pointer_source_alignment = 8;  // that of a pointer where that is less
  bool heap_check_run_under_gdb = false;
  bool heap_check_show_contents = false;
  bool heap_check_test_pointer_alignment = false;
  char pprof_path[kSettingTextBytes] = "pprof";
  // The heap profiler, which only the full library has. No prefix: it starts when the program says.
  char heap_profile[kSettingTextBytes] = "";
  bool heap_profile_use_pid = false;
  int heap_profile_signal = 0;
  bool heap_profile_cleanup = true;
  // 0: none.
  uint64_t heap_profile_allocation_interval = uint64_t{1} << 30;
  uint64_t heap_profile_deallocation_interval = 0;
  uint64_t heap_profile_inuse_interval = uint64_t{100} << 20;
  uint64_t heap_profile_time_interval_seconds = 0;
  // How those who start many processes at once tell them apart.
  char pmix_rank[kSettingTextBytes] = "";
  char pmi_rank[kSettingTextBytes] = "";
  char slurm_process[kSettingTextBytes] = "";
  bool in_slurm_job = false;
  bool has_open_mpi = false;
  bool hugepages = true;
  // LargeReports::kNever for none. Lines only where the variable is set.
  size_t large_report_threshold_bytes = LargeReports::kDefaultThreshold;
  bool large_report_lines = false;
  char devmem_device[kSettingTextBytes] = "/dev/mem";
  uint64_t devmem_limit_mb = 0;
  uint64_t devmem_start_mb = 0;
  bool memfs_abort_on_fail = false;
  bool memfs_disable_fallback = false;
  bool memfs_ignore_mmap_fail = false;
  uint64_t memfs_limit_mb = 0;
  bool memfs_map_private = false;
  char memfs_path[kSettingTextBytes] = "";
  bool membarrier = true;
  size_t max_total_thread_cache_bytes = CacheBudget::kDefaultTotalBytes;
  // No variables of their own.
  size_t min_thread_cache_bytes = CacheBudget::kStepBytes;
  size_t inheritance_bytes = kInheritanceBytes;
  int64_t malloc_stats = 0;
  double release_rate = 1.0;
  size_t hard_limit_bytes = kNoLimit;
  size_t soft_limit_bytes = kNoLimit;
  uint32_t soft_limit_percent = 0;  // of what the container may have; 0 for none
  size_t sample_period_bytes = 0;
  uint64_t sample_seed = 0;
  char pressure[kSettingTextBytes] = "";
  // Profiles of samples, to files (profiler/profile_files.h): in the full library only.
  char profile_files[kSettingTextBytes] = "";
  bool report_at_term = false;
  char stats_every[kSettingTextBytes] = "";
  bool small = false;
  bool skip_mmap = false;
  bool skip_sbrk = false;
  StackTraceMethod stack_trace_method = StackTraceMethod::kAuto;
  bool stack_trace_method_verbose = false;
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

// What the documentation is made of: the settings in the order of their names, false behind the
// last; what values they may have; and, by groups, those that are ignored, each with a space behind
// it, null behind the last group.
struct SettingDescription {
  std::string_view name;
  std::string_view default_text;
  bool names_files = false;
  bool for_full_library = false;
};
bool DescribeSetting(size_t i, SettingDescription* description);
void WriteSettingRange(size_t i, TextWriter* out);
const char* IgnoredSettings(size_t group);

// The table as Markdown (settings_documentation.cc).
void WriteSettingsDocumentation(TextWriter* out);

}  // namespace tcmalloc
