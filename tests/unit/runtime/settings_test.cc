// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "testing/heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// Reads one variable into `settings` and returns the complaint.
std::string Read(const std::string& name, const std::string& value, Settings* settings) {
  char buffer[512];
  TextWriter complaint(buffer, sizeof(buffer));
  ReadSetting(name.data(), name.size(), value.c_str(), settings, &complaint);
  EXPECT_FALSE(complaint.truncated());
  return std::string(complaint.text());
}

bool operator==(const Settings& a, const Settings& b) {
  return a.aggressive_decommit == b.aggressive_decommit && a.background == b.background &&
         a.disable_memory_release == b.disable_memory_release && a.hugepages == b.hugepages &&
         a.check == b.check && a.malloc_stats == b.malloc_stats && a.membarrier == b.membarrier &&
         a.large_report_threshold_bytes == b.large_report_threshold_bytes &&
         a.max_total_thread_cache_bytes == b.max_total_thread_cache_bytes &&
         a.release_rate == b.release_rate && a.hard_limit_bytes == b.hard_limit_bytes &&
         a.soft_limit_bytes == b.soft_limit_bytes && a.soft_limit_percent == b.soft_limit_percent &&
         a.stack_trace_method == b.stack_trace_method &&
         a.stack_trace_method_verbose == b.stack_trace_method_verbose &&
         std::string_view(a.heap_profile) == b.heap_profile &&
         a.heap_profile_use_pid == b.heap_profile_use_pid &&
         a.heap_profile_signal == b.heap_profile_signal &&
         a.heap_profile_cleanup == b.heap_profile_cleanup &&
         a.heap_profile_allocation_interval == b.heap_profile_allocation_interval &&
         a.heap_profile_deallocation_interval == b.heap_profile_deallocation_interval &&
         a.heap_profile_inuse_interval == b.heap_profile_inuse_interval &&
         a.heap_profile_time_interval_seconds == b.heap_profile_time_interval_seconds &&
         std::string_view(a.pmix_rank) == b.pmix_rank &&
         std::string_view(a.pmi_rank) == b.pmi_rank &&
         std::string_view(a.slurm_process) == b.slurm_process && a.in_slurm_job == b.in_slurm_job &&
         a.has_open_mpi == b.has_open_mpi && std::string_view(a.pressure) == b.pressure &&
         a.small == b.small && a.skip_mmap == b.skip_mmap && a.skip_sbrk == b.skip_sbrk &&
         a.sample_period_bytes == b.sample_period_bytes && a.sample_seed == b.sample_seed &&
         a.devmem_start_mb == b.devmem_start_mb && a.devmem_limit_mb == b.devmem_limit_mb &&
         std::string_view(a.devmem_device) == b.devmem_device &&
         std::string_view(a.memfs_path) == b.memfs_path && a.memfs_limit_mb == b.memfs_limit_mb &&
         a.memfs_abort_on_fail == b.memfs_abort_on_fail &&
         a.memfs_disable_fallback == b.memfs_disable_fallback &&
         a.memfs_ignore_mmap_fail == b.memfs_ignore_mmap_fail &&
         a.memfs_map_private == b.memfs_map_private && a.heap_check == b.heap_check &&
         a.heap_check_after_destructors == b.heap_check_after_destructors &&
         strcmp(a.heap_check_dump_directory, b.heap_check_dump_directory) == 0 &&
         a.heap_check_identify_leaks == b.heap_check_identify_leaks &&
         a.heap_check_ignore_global_live == b.heap_check_ignore_global_live &&
         a.heap_check_ignore_thread_live == b.heap_check_ignore_thread_live &&
         a.heap_check_max_leaks == b.heap_check_max_leaks &&
         a.heap_check_max_pointer_offset == b.heap_check_max_pointer_offset &&
         a.heap_check_pointer_source_alignment == b.heap_check_pointer_source_alignment &&
         a.heap_check_run_under_gdb == b.heap_check_run_under_gdb &&
         a.heap_check_show_contents == b.heap_check_show_contents &&
         a.heap_check_test_pointer_alignment == b.heap_check_test_pointer_alignment &&
         strcmp(a.pprof_path, b.pprof_path) == 0;
}

// Values that are different from all defaults.
Settings Unusual() {
  Settings settings;
  settings.aggressive_decommit = true;
  settings.background = BackgroundMode::kAtLoad;
  settings.check = true;
  settings.disable_memory_release = true;
  settings.hugepages = false;
  settings.malloc_stats = 2;
  settings.large_report_threshold_bytes = 54321;
  settings.membarrier = false;
  settings.max_total_thread_cache_bytes = 12345;
  settings.release_rate = 7.5;
  strcpy(settings.pressure, "auto");
  settings.hard_limit_bytes = 4321;
  settings.soft_limit_bytes = 1234;
  settings.soft_limit_percent = 56;
  settings.sample_period_bytes = 524288;
  settings.sample_seed = 11;
  settings.small = true;
  settings.skip_mmap = true;
  settings.skip_sbrk = true;
  strcpy(settings.heap_profile, "/tmp/heap");
  settings.heap_profile_use_pid = true;
  settings.heap_profile_signal = 12;
  settings.heap_profile_cleanup = false;
  settings.heap_profile_allocation_interval = 4;
  settings.heap_profile_deallocation_interval = 5;
  settings.heap_profile_inuse_interval = 6;
  settings.heap_profile_time_interval_seconds = 7;
  strcpy(settings.pmix_rank, "8");
  strcpy(settings.pmi_rank, "9");
  strcpy(settings.slurm_process, "10");
  settings.in_slurm_job = true;
  settings.has_open_mpi = true;
  settings.stack_trace_method = StackTraceMethod::kFramePointers;
  settings.stack_trace_method_verbose = true;
  settings.devmem_start_mb = 1;
  settings.devmem_limit_mb = 2;
  strcpy(settings.devmem_device, "/dev/other");
  strcpy(settings.memfs_path, "/dev/hugepages/heap");
  settings.memfs_limit_mb = 3;
  settings.memfs_abort_on_fail = true;
  settings.memfs_disable_fallback = true;
  settings.memfs_ignore_mmap_fail = true;
  settings.memfs_map_private = true;
  settings.heap_check = HeapCheckMode::kStrict;
  settings.heap_check_after_destructors = true;
  strcpy(settings.heap_check_dump_directory, "/var/tmp");
  settings.heap_check_identify_leaks = true;
  settings.heap_check_ignore_global_live = false;
  settings.heap_check_ignore_thread_live = false;
  settings.heap_check_max_leaks = 5;
  settings.heap_check_max_pointer_offset = -1;
  settings.heap_check_pointer_source_alignment = 1;
  settings.heap_check_run_under_gdb = true;
  settings.heap_check_show_contents = true;
  settings.heap_check_test_pointer_alignment = true;
  strcpy(settings.pprof_path, "/opt/pprof");
  return settings;
}

std::string Documentation() {
  std::vector<char> buffer(size_t{64} << 10);
  TextWriter out(buffer.data(), buffer.size());
  WriteSettingsDocumentation(&out);
  EXPECT_FALSE(out.truncated());
  return std::string(out.text());
}

// The cells of the documentation's table, without its head.
// The page without the sections behind the settings.
std::string DocumentationOfSettings() {
  const std::string text = Documentation();
  return text.substr(0, text.find("\n## "));
}

std::vector<std::vector<std::string>> DocumentedRows() {
  std::vector<std::vector<std::string>> rows;
  std::istringstream text(DocumentationOfSettings());
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) {
      const size_t first = cell.find_first_not_of(" `");
      const size_t last = cell.find_last_not_of(" `");
      cells.push_back(cell.substr(first, last - first + 1));
    }
    rows.push_back(cells);
  }
  return rows;
}

std::vector<std::string> DocumentedIgnoredNames() {
  const std::string text = DocumentationOfSettings();
  std::vector<std::string> names;
  size_t at = text.find("have no effect:\n");
  EXPECT_NE(at, std::string::npos);
  while ((at = text.find('`', at)) != std::string::npos) {
    const size_t end = text.find('`', at + 1);
    names.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

TEST(SettingsTest, Booleans) {
  for (const char* yes : {"1", "true", "TRUE", "True", "t", "T", "yes", "y", "Y", "on", "ON", ""}) {
    Settings settings;
    EXPECT_EQ(Read("TCMALLOC_CHECK", yes, &settings), "");
    EXPECT_TRUE(settings.check) << yes;
  }
  for (const char* no : {"0", "false", "FALSE", "f", "F", "no", "n", "N", "off", "Off"}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("TCMALLOC_CHECK", no, &settings), "");
    EXPECT_FALSE(settings.check) << no;
  }
  for (const char* bad : {"2", "-1", "tru", "truee", "yess", " 1", "1 ", "01", "o", "enable"}) {
    Settings settings = Unusual();
    EXPECT_EQ(
        Read("TCMALLOC_CHECK", bad, &settings),
        "tcmalloc: TCMALLOC_CHECK=" + std::string(bad) +
            " is ignored: expected 0 or 1, false or true, no or yes, off or on; using false\n");
    EXPECT_TRUE(settings == Unusual()) << bad;
  }
}

TEST(SettingsTest, Integers) {
  for (const auto& [text, value] :
       {std::pair("0", 0), std::pair("1", 1), std::pair("2", 2), std::pair("02", 2)}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("MALLOCSTATS", text, &settings), "");
    EXPECT_EQ(settings.malloc_stats, value);
  }
  for (const char* bad : {"", "3", "-1", "+1", "1.0", "1.", "0x1", "1 ", " 1", "one", "1e0",
                          "18446744073709551617", "99999999999999999999999999999999999999999"}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("MALLOCSTATS", bad, &settings),
              "tcmalloc: MALLOCSTATS=" + std::string(bad) +
                  " is ignored: expected integer from 0 to 2; using 0\n");
    EXPECT_TRUE(settings == Unusual()) << bad;
  }
}

TEST(SettingsTest, Numbers) {
  for (const auto& [text, value] :
       {std::pair("0", 0.0), std::pair("1", 1.0), std::pair("2.5", 2.5), std::pair("0.125", 0.125),
        std::pair("10", 10.0), std::pair("1000", 1000.0), std::pair("1000.0", 1000.0),
        std::pair(".5", 0.5), std::pair("5.", 5.0), std::pair("0001", 1.0)}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", text, &settings), "");
    EXPECT_DOUBLE_EQ(settings.release_rate, value) << text;
  }
  for (const char* bad : {"", ".", "-1", "-0.5", "1000.1", "1001", "1e3", "1,5", "1..5", "1.5.",
                          "nan", "inf", "0x10", " 1", "1 ", "one"}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", bad, &settings),
              "tcmalloc: TCMALLOC_RELEASE_RATE=" + std::string(bad) +
                  " is ignored: expected number from 0 to 1000; using 1.0\n");
    EXPECT_TRUE(settings == Unusual()) << bad;
  }
}

TEST(SettingsTest, VeryLongNumbers) {
  Settings settings = Unusual();
  // Larger than any double; shown cut off.
  EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", std::string(5000, '9'), &settings),
            "tcmalloc: TCMALLOC_RELEASE_RATE=" + std::string(100, '9') +
                " is ignored: expected number from 0 to 1000; using 1.0\n");
  EXPECT_TRUE(settings == Unusual());
  EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", "0." + std::string(5000, '3'), &settings), "");
  EXPECT_NEAR(settings.release_rate, 1.0 / 3, 1e-12);
  EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", std::string(5000, '0') + "4", &settings), "");
  EXPECT_DOUBLE_EQ(settings.release_rate, 4);
}

TEST(SettingsTest, UnknownVariables) {
  for (const char* name : {"TCMALLOC_", "TCMALLOC_X", "TCMALLOC_ARENAS", "TCMALLOC_check"}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read(name, "1", &settings),
              "tcmalloc: " + std::string(name) + " is ignored: there is no such setting\n");
    EXPECT_TRUE(settings == Unusual());
  }
  Settings settings;
  EXPECT_EQ(
      Read("TCMALLOC_" + std::string(300, 'X'), "1", &settings),
      "tcmalloc: TCMALLOC_" + std::string(91, 'X') + " is ignored: there is no such setting\n");
}

TEST(SettingsTest, OtherVariablesAreNotOurs) {
  for (const char* name : {"", "PATH", "TCMALLOC", "tcmalloc_check", "XTCMALLOC_CHECK",
                           "MALLOCSTATS222", "MALLOC_STAT"}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read(name, "nonsense", &settings), "") << name;
    EXPECT_TRUE(settings == Unusual());
  }
}

TEST(SettingsTest, VariablesOfOtherReleasesAreSilentlyIgnored) {
  const std::vector<std::string> ignored = DocumentedIgnoredNames();
  EXPECT_GE(ignored.size(), 25u);
  for (const std::string& name : ignored) {
    for (const char* value : {"", "1", "nonsense", "-5"}) {
      Settings settings = Unusual();
      EXPECT_EQ(Read(name, value, &settings), "");
      EXPECT_TRUE(settings == Unusual());
    }
  }
}

// Whoever set one for another library with this interface is not told that it does not exist.
TEST(SettingsTest, EveryVariableOfTheInterfaceIsKnown) {
  for (const char* name : {"SAMPLE_PARAMETER",
                           "RELEASE_RATE",
                           "MAX_TOTAL_THREAD_CACHE_BYTES",
                           "LARGE_ALLOC_REPORT_THRESHOLD",
                           "AGGRESSIVE_DECOMMIT",
                           "HEAP_LIMIT_MB",
                           "DISABLE_MEMORY_RELEASE",
                           "OVERRIDE_PAGESIZE",
                           "TRANSFER_NUM_OBJ",
                           "ENABLE_SIZED_DELETE",
                           "SKIP_MMAP",
                           "SKIP_SBRK",
                           "DEVMEM_START",
                           "DEVMEM_LIMIT",
                           "DEVMEM_DEVICE",
                           "MEMFS_MALLOC_PATH",
                           "MEMFS_LIMIT_MB",
                           "MEMFS_ABORT_ON_FAIL",
                           "MEMFS_IGNORE_MMAP_FAIL",
                           "MEMFS_MAP_PRIVATE",
                           "MEMFS_DISABLE_FALLBACK",
                           "STACKTRACE_METHOD",
                           "STACKTRACE_METHOD_VERBOSE",
                           "DISABLE_REPLACEMENT",
                           "TRACE",
                           "TRACE_FILE",
                           "PAGE_FENCE",
                           "PAGE_FENCE_NEVER_RECLAIM",
                           "PAGE_FENCE_READABLE",
                           "RECLAIM_MEMORY",
                           "MAX_FREE_QUEUE_SIZE",
                           "SYMBOLIZE_STACKTRACE"}) {
    Settings settings;
    const char* const value = std::string_view(name) == "STACKTRACE_METHOD" ? "libgcc" : "1";
    EXPECT_EQ(Read("TCMALLOC_" + std::string(name), value, &settings), "") << name;
  }
  const std::string text = Documentation();
  for (const char* name : {"HEAPPROFILE",
                           "HEAPPROFILE_USE_PID",
                           "HEAPPROFILESIGNAL",
                           "HEAP_PROFILE_ALLOCATION_INTERVAL",
                           "HEAP_PROFILE_DEALLOCATION_INTERVAL",
                           "HEAP_PROFILE_INUSE_INTERVAL",
                           "HEAP_PROFILE_TIME_INTERVAL",
                           "HEAP_PROFILE_CLEANUP",
                           "HEAP_PROFILE_MMAP",
                           "HEAP_PROFILE_MMAP_LOG",
                           "HEAP_PROFILE_ONLY_MMAP",
                           "HEAP_CHECK_MAX_LEAKS",
                           "CPUPROFILE",
                           "CPUPROFILE_USE_PID",
                           "CPUPROFILESIGNAL",
                           "CPUPROFILE_FREQUENCY",
                           "CPUPROFILE_REALTIME",
                           "CPUPROFILE_PER_THREAD_TIMERS",
                           "CPUPROFILE_TIMER_SIGNAL",
                           "PROFILESELECTED",
                           "MALLOCSTATS",
                           "PERFTOOLS_VERBOSE",
                           "RUNNING_ON_VALGRIND",
                           "PMIX_RANK",
                           "SLURM_JOB_ID",
                           "SLURM_PROCID",
                           "OMPI_HOME",
                           "PMI_RANK"}) {
    EXPECT_NE(text.find("`" + std::string(name) + "`"), std::string::npos) << name;
  }
}

TEST(SettingsTest, HeapCheckModes) {
  const std::pair<const char*, HeapCheckMode> modes[] = {
      {"minimal", HeapCheckMode::kMinimal},
      {"normal", HeapCheckMode::kNormal},
      {"STRICT", HeapCheckMode::kStrict},
      {"draconian", HeapCheckMode::kDraconian},
      {"as-is", HeapCheckMode::kAsIs},
      {"local", HeapCheckMode::kLocal},
      {"", HeapCheckMode::kOff},
  };
  for (const auto& [word, mode] : modes) {
    Settings settings;
    settings.heap_check = word[0] == '\0' ? HeapCheckMode::kNormal : HeapCheckMode::kOff;
    EXPECT_EQ(Read("HEAPCHECK", word, &settings), "") << word;
    EXPECT_EQ(settings.heap_check, mode) << word;
  }
  Settings settings;
  EXPECT_EQ(Read("HEAPCHECK", "1", &settings),
            "tcmalloc: HEAPCHECK=1 is ignored: expected one of minimal, normal, strict, draconian, "
            "as-is, local; using \"\"\n");
  EXPECT_EQ(settings.heap_check, HeapCheckMode::kOff);
  EXPECT_EQ(Read("HEAP_CHECK_MAX_LEAKS", "0", &settings), "");
  EXPECT_EQ(settings.heap_check_max_leaks, UINT64_MAX);
  EXPECT_EQ(Read("HEAP_CHECK_MAX_LEAKS", "-3", &settings), "");
  EXPECT_EQ(settings.heap_check_max_leaks, UINT64_MAX);
  EXPECT_EQ(Read("HEAP_CHECK_MAX_POINTER_OFFSET", "-1", &settings), "");
  EXPECT_EQ(settings.heap_check_max_pointer_offset, -1);
  EXPECT_NE(Read("HEAP_CHECK_MAX_POINTER_OFFSET", "-2", &settings), "");
  EXPECT_NE(Read("HEAP_CHECK_POINTER_SOURCE_ALIGNMENT", "0", &settings), "");
}

TEST(SettingsTest, HeapProfiler) {
  Settings settings;
  EXPECT_EQ(settings.heap_profile_allocation_interval, uint64_t{1} << 30);
  EXPECT_EQ(settings.heap_profile_deallocation_interval, 0u);
  EXPECT_EQ(settings.heap_profile_inuse_interval, uint64_t{100} << 20);
  EXPECT_EQ(settings.heap_profile_time_interval_seconds, 0u);
  EXPECT_TRUE(settings.heap_profile_cleanup);
  for (const auto& [name, interval] :
       {std::pair("HEAP_PROFILE_ALLOCATION_INTERVAL", &settings.heap_profile_allocation_interval),
        std::pair("HEAP_PROFILE_DEALLOCATION_INTERVAL",
                  &settings.heap_profile_deallocation_interval),
        std::pair("HEAP_PROFILE_INUSE_INTERVAL", &settings.heap_profile_inuse_interval),
        std::pair("HEAP_PROFILE_TIME_INTERVAL", &settings.heap_profile_time_interval_seconds)}) {
    for (const auto& [text, value] : {std::pair("12345", 12345u), std::pair("0", 0u),
                                      std::pair("77", 77u), std::pair("-77", 0u)}) {
      EXPECT_EQ(Read(name, text, &settings), "") << name;
      EXPECT_EQ(*interval, value) << name << "=" << text;
    }
    *interval = 5;
    for (const char* bad : {"", "1X", "1.5", "-", "x"}) {
      EXPECT_NE(Read(name, bad, &settings), "") << name << "=" << bad;
      EXPECT_EQ(*interval, 5u);
    }
  }
  EXPECT_EQ(Read("HEAPPROFILESIGNAL", "12", &settings), "");
  EXPECT_EQ(settings.heap_profile_signal, 12);
  EXPECT_NE(Read("HEAPPROFILESIGNAL", "65", &settings), "");
  EXPECT_NE(Read("HEAPPROFILESIGNAL", "-1", &settings), "");
  EXPECT_EQ(settings.heap_profile_signal, 12);
  EXPECT_EQ(Read("HEAPPROFILE", "/tmp/a b", &settings), "");
  EXPECT_STREQ(settings.heap_profile, "/tmp/a b");
  // Of these it is enough that they are there, however long.
  for (const auto& [name, is_set] : {std::pair("OMPI_HOME", &settings.has_open_mpi),
                                     std::pair("SLURM_JOB_ID", &settings.in_slurm_job)}) {
    EXPECT_EQ(Read(name, std::string(1000, 'x'), &settings), "");
    EXPECT_TRUE(*is_set) << name;
    EXPECT_EQ(Read(name, "", &settings), "");
    EXPECT_FALSE(*is_set) << name;
  }
  EXPECT_EQ(Read("PMIX_RANK", "17", &settings), "");
  EXPECT_STREQ(settings.pmix_rank, "17");
}

// A variable must not write control sequences to the terminal, or lines of its own.
TEST(SettingsTest, AComplaintIsOneLineWhateverTheVariable) {
  Settings settings;
  EXPECT_EQ(Read("TCMALLOC_CHECK", "a\nb\tc\x1b[2Jd\xff", &settings),
            "tcmalloc: TCMALLOC_CHECK=a?b?c?[2Jd? is ignored: expected 0 or 1, false or true, "
            "no or yes, off or on; using false\n");
  EXPECT_EQ(Read("TCMALLOC_A\nB", "", &settings),
            "tcmalloc: TCMALLOC_A?B is ignored: there is no such setting\n");
}

TEST(SettingsTest, RandomBytes) {
  constexpr uint64_t kSeed = 31337;
  SeededRandom random(kSeed);
  const std::string names[] = {"TCMALLOC_CHECK",
                               "MALLOCSTATS",
                               "TCMALLOC_RELEASE_RATE",
                               "TCMALLOC_SOFT_LIMIT",
                               "TCMALLOC_TRACE",
                               "TCMALLOC_MEMFS_MALLOC_PATH",
                               "TCMALLOC_"};
  const std::string likely = "0123456789..-+eExtruefalsnoyKMG%% ";
  for (int i = 0; i < 50000; ++i) {
    std::string name = names[random.Below(std::size(names))];
    while (random.OneIn(4)) name += static_cast<char>(random.Between(1, 255));
    std::string value;
    for (size_t n = random.Below(random.OneIn(20) ? 300 : 12); n > 0; --n) {
      value += random.OneIn(4) ? static_cast<char>(random.Between(1, 255))
                               : likely[random.Below(likely.size())];
    }
    Settings settings = Unusual();
    const std::string complaint = Read(name, value, &settings);
    ASSERT_TRUE(settings.malloc_stats >= 0 && settings.malloc_stats <= 2);
    ASSERT_TRUE(settings.release_rate >= 0 && settings.release_rate <= 1000);
    ASSERT_LE(settings.soft_limit_percent, 100u);
    if (name == "TCMALLOC_MEMFS_MALLOC_PATH") {
      ASSERT_EQ(complaint.empty(), value.size() < kSettingTextBytes);
      ASSERT_EQ(settings.memfs_path, complaint.empty() ? value : Unusual().memfs_path);
    }
    if (complaint.empty()) continue;
    ASSERT_TRUE(settings == Unusual()) << name << "=" << value;
    ASSERT_EQ(std::count(complaint.begin(), complaint.end(), '\n'), 1) << complaint;
    ASSERT_EQ(complaint.back(), '\n');
    ASSERT_EQ(complaint.rfind("tcmalloc: ", 0), 0u);
    ASSERT_NE(complaint.find(" is ignored: "), std::string::npos);
    for (const char c : complaint) ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  }
}

// What stands in the process's environment: each mistake costs one line, nothing else is written.
TEST(SettingsDeathTest, ReadsTheEnvironment) {
  EXPECT_EXIT(
      {
        setenv("TCMALLOC_CHECK", "yes", 1);
        setenv("MALLOCSTATS", "7", 1);
        setenv("TCMALLOC_RELEASE_RATE", "2.5", 1);
        setenv("TCMALLOC_SKIP_MMAP", "1", 1);
        setenv("TCMALLOC_TRACE", "whatever", 1);
        Settings settings;
        ReadSettings(false, &settings);
        _exit(settings.check && settings.malloc_stats == 0 && settings.release_rate == 2.5 &&
                      settings.skip_mmap && !settings.skip_sbrk
                  ? 0
                  : 1);
      },
      testing::ExitedWithCode(0),
      testing::Eq("tcmalloc: MALLOCSTATS=7 is ignored: expected integer from 0 to 2; using 0\n"));
}

// The user of a program with more rights than his own does not say which files it opens. What he
// may say is read.
TEST(SettingsDeathTest, RaisedPrivilegesLeaveFilesOut) {
  for (const bool raised : {false, true}) {
    EXPECT_EXIT(
        {
          setenv("TCMALLOC_CHECK", "yes", 1);
          setenv("TCMALLOC_MEMFS_MALLOC_PATH", "/dev/shm/heap", 1);
          setenv("TCMALLOC_MEMFS_ABORT_ON_FAIL", "1", 1);
          setenv("TCMALLOC_MEMFS_DISABLE_FALLBACK", "1", 1);
          setenv("TCMALLOC_MEMFS_IGNORE_MMAP_FAIL", "1", 1);
          setenv("TCMALLOC_MEMFS_MAP_PRIVATE", "1", 1);
          setenv("TCMALLOC_MEMFS_LIMIT_MB", "1", 1);
          setenv("HEAPCHECK", "normal", 1);
          setenv("HEAP_CHECK_DUMP_DIRECTORY", "/dev/shm", 1);
          setenv("HEAP_CHECK_SHOW_CONTENTS", "1", 1);
          setenv("PPROF_PATH", "/dev/shm/pprof", 1);
          setenv("HEAPPROFILE", "/dev/shm/heap", 1);
          setenv("HEAPPROFILE_USE_PID", "1", 1);
          setenv("HEAPPROFILESIGNAL", "12", 1);
          setenv("HEAP_PROFILE_CLEANUP", "0", 1);
          setenv("OMPI_HOME", "/opt", 1);
          setenv("PMIX_RANK", "1", 1);
          setenv("PMI_RANK", "1", 1);
          setenv("SLURM_JOB_ID", "1", 1);
          setenv("SLURM_PROCID", "1", 1);
          setenv("TCMALLOC_DEVMEM_START", "1", 1);
          setenv("TCMALLOC_DEVMEM_LIMIT", "2", 1);
          setenv("TCMALLOC_DEVMEM_DEVICE", "/dev/shm/device", 1);
          Settings settings;
          ReadSettings(raised, &settings);
          Settings expected;
          expected.check = true;
          _exit((settings == expected) == raised ? 0 : 1);
        },
        testing::ExitedWithCode(0), testing::Eq(""));
  }
}

TEST(SettingsTest, ThresholdOfLargeAllocations) {
  Settings settings;
  EXPECT_EQ(settings.large_report_threshold_bytes, size_t{1} << 30);
  EXPECT_FALSE(settings.large_report_lines) << "nobody asked for them";
  for (const auto& [text, bytes] :
       {std::pair("1", size_t{1}), std::pair("1073741824", size_t{1} << 30),
        std::pair("0", LargeReports::kNever), std::pair("-1", LargeReports::kNever),
        std::pair("-1125899906842624", LargeReports::kNever)}) {
    settings = Settings();
    EXPECT_EQ(Read("TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", text, &settings), "");
    EXPECT_EQ(settings.large_report_threshold_bytes, bytes) << text;
    EXPECT_TRUE(settings.large_report_lines);
  }
  for (const char* bad : {"", "-", "--1", "1X", "1.5", "1125899906842625", "-1125899906842625"}) {
    settings = Unusual();
    EXPECT_EQ(Read("TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", bad, &settings),
              "tcmalloc: TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD=" + std::string(bad) +
                  " is ignored: expected bytes (suffixes K, M, G, T) from -1125899906842624 to "
                  "1125899906842624; using 1073741824\n");
    EXPECT_TRUE(settings == Unusual()) << bad;
    EXPECT_FALSE(settings.large_report_lines);
  }
  EXPECT_NE(Read("TCMALLOC_DEVMEM_START", "-1", &settings), "") << "others are not below zero";
}

TEST(SettingsTest, Choices) {
  using Method = StackTraceMethod;
  for (const auto& [text, method] :
       {std::pair("auto", Method::kAuto), std::pair("cfi", Method::kCallFrameInfo),
        std::pair("FP", Method::kFramePointers), std::pair("none", Method::kNone),
        std::pair("libgcc", Method::kCallFrameInfo), std::pair("libunwind", Method::kCallFrameInfo),
        std::pair("generic_fp", Method::kFramePointers),
        std::pair("generic_fp_unsafe", Method::kFramePointers), std::pair("null", Method::kNone)}) {
    Settings settings;
    settings.stack_trace_method = method == Method::kAuto ? Method::kNone : Method::kAuto;
    EXPECT_EQ(Read("TCMALLOC_STACKTRACE_METHOD", text, &settings), "");
    EXPECT_EQ(settings.stack_trace_method, method) << text;
  }
  for (const char* bad : {"", "aut", "auto ", "fpp", "1"}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("TCMALLOC_STACKTRACE_METHOD", bad, &settings),
              "tcmalloc: TCMALLOC_STACKTRACE_METHOD=" + std::string(bad) +
                  " is ignored: expected one of auto, cfi, fp, none, libgcc, libunwind, "
                  "generic_fp, generic_fp_unsafe, x86, arm, ppc, instrument, null; using auto\n");
    EXPECT_TRUE(settings == Unusual()) << bad;
  }
}

TEST(SettingsTest, Texts) {
  for (const std::string& text :
       {std::string(), std::string("/dev/shm/heap"), std::string("\xff\n \t"),
        std::string(kSettingTextBytes - 1, 'x')}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("TCMALLOC_MEMFS_MALLOC_PATH", text, &settings), "");
    EXPECT_EQ(settings.memfs_path, text);
    EXPECT_EQ(Read("TCMALLOC_DEVMEM_DEVICE", text, &settings), "");
    EXPECT_EQ(settings.devmem_device, text);
  }
  // Not cut off: that would be another file.
  for (const size_t length : {kSettingTextBytes, kSettingTextBytes + 1, 10 * kSettingTextBytes}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read("TCMALLOC_MEMFS_MALLOC_PATH", std::string(length, 'x'), &settings),
              "tcmalloc: TCMALLOC_MEMFS_MALLOC_PATH=" + std::string(100, 'x') +
                  " is ignored: expected text of at most 255 bytes; using \"\"\n");
    EXPECT_EQ(Read("TCMALLOC_DEVMEM_DEVICE", std::string(length, 'x'), &settings),
              "tcmalloc: TCMALLOC_DEVMEM_DEVICE=" + std::string(100, 'x') +
                  " is ignored: expected text of at most 255 bytes; using /dev/mem\n");
    EXPECT_TRUE(settings == Unusual());
  }
}

TEST(SettingsTest, TotalOfThreadCaches) {
  Settings settings;
  EXPECT_EQ(settings.max_total_thread_cache_bytes, 33554432u);
  EXPECT_EQ(Read("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "0", &settings), "");
  EXPECT_EQ(settings.max_total_thread_cache_bytes, 0u);
  EXPECT_EQ(Read("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "1125899906842624", &settings), "");
  // What no address space holds is as much as there are addresses.
  const size_t most = static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 50, SIZE_MAX));
  EXPECT_EQ(settings.max_total_thread_cache_bytes, most);
  for (const char* bad : {"-1", "1125899906842625", "1.5", "32X", ""}) {
    EXPECT_NE(Read("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", bad, &settings), "") << bad;
    EXPECT_EQ(settings.max_total_thread_cache_bytes, most);
  }
}

TEST(SettingsTest, TheSmallPresetIsWhatItsDocumentationSays) {
  Settings settings;
  UseSmallPreset(&settings);
  EXPECT_TRUE(settings.small);
  EXPECT_EQ(settings.max_total_thread_cache_bytes, size_t{1} << 20);
  EXPECT_EQ(settings.min_thread_cache_bytes, size_t{16} << 10);
  EXPECT_FALSE(settings.hugepages);
  EXPECT_EQ(settings.release_rate, 10);
  EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", "2", &settings), "");
  EXPECT_EQ(settings.release_rate, 2) << "what is set prevails";
}

// What 32 bits cannot say is no limit.
constexpr size_t Clamped(uint64_t bytes) {
  return static_cast<size_t>(std::min<uint64_t>(bytes, SIZE_MAX));
}

TEST(SettingsTest, HardLimit) {
  Settings settings;
  EXPECT_EQ(settings.hard_limit_bytes, kNoLimit);
  for (const auto& [text, bytes] :
       {std::pair("1", Clamped(uint64_t{1} << 20)), std::pair("4096", Clamped(uint64_t{4} << 30)),
        std::pair("0", kNoLimit), std::pair("1073741824", Clamped(uint64_t{1} << 50)),
        std::pair("2048K", Clamped(uint64_t{2} << 20)), std::pair("3M", Clamped(uint64_t{3} << 20)),
        std::pair("4GiB", Clamped(uint64_t{4} << 30)),
        std::pair("1024T", Clamped(uint64_t{1} << 50)), std::pair("0G", kNoLimit)}) {
    EXPECT_EQ(Read("TCMALLOC_HEAP_LIMIT_MB", text, &settings), "");
    EXPECT_EQ(settings.hard_limit_bytes, bytes) << text;
  }
  settings = Unusual();
  for (const char* bad : {"", "-1", "1.5", "1K", "1500K", "50%", "1073741825", "1025T", "1m1"}) {
    EXPECT_EQ(Read("TCMALLOC_HEAP_LIMIT_MB", bad, &settings),
              "tcmalloc: TCMALLOC_HEAP_LIMIT_MB=" + std::string(bad) +
                  " is ignored: expected MiB (or with a suffix K, M, G, T) from 0 to 1073741824; "
                  "using 0\n");
    EXPECT_TRUE(settings == Unusual()) << bad;
  }
}

TEST(SettingsTest, Sizes) {
  Settings settings;
  EXPECT_EQ(settings.soft_limit_bytes, kNoLimit);
  for (const auto& [text, bytes] :
       {std::pair("1", size_t{1}), std::pair("123456789", size_t{123456789}),
        std::pair("3K", Clamped(uint64_t{3} << 10)), std::pair("3k", Clamped(uint64_t{3} << 10)),
        std::pair("700M", Clamped(uint64_t{700} << 20)),
        std::pair("16g", Clamped(uint64_t{16} << 30)),
        std::pair("1125899906842624", Clamped(uint64_t{1} << 50)),
        std::pair("0001M", Clamped(uint64_t{1} << 20)), std::pair("0", kNoLimit),
        std::pair("0G", kNoLimit), std::pair("1T", Clamped(uint64_t{1} << 40)),
        std::pair("1KB", size_t{1024}), std::pair("1KiB", size_t{1024}),
        std::pair("5mib", Clamped(uint64_t{5} << 20)), std::pair("5Mb", Clamped(uint64_t{5} << 20)),
        std::pair("2GIB", Clamped(uint64_t{2} << 30)),
        std::pair("3tb", Clamped(uint64_t{3} << 40))}) {
    settings.soft_limit_percent = 7;
    EXPECT_EQ(Read("TCMALLOC_SOFT_LIMIT", text, &settings), "");
    EXPECT_EQ(settings.soft_limit_bytes, bytes) << text;
    EXPECT_EQ(settings.soft_limit_percent, 0u) << text;
  }
  for (const auto& [text, percent] :
       {std::pair("1%", 1u), std::pair("80%", 80u), std::pair("100%", 100u)}) {
    settings.soft_limit_bytes = 7;
    EXPECT_EQ(Read("TCMALLOC_SOFT_LIMIT", text, &settings), "");
    EXPECT_EQ(settings.soft_limit_percent, percent);
    EXPECT_EQ(settings.soft_limit_bytes, kNoLimit);
  }
  for (const char* bad : {"",         "%",
                          "K",        "-1",
                          "-50%",     "0%",
                          "101%",     "50%%",
                          "50 %",     "1.5G",
                          "1P",       "1B",
                          "1KBB",     "1 K",
                          "1iB",      "1KiBx",
                          "1MM",      "1KM",
                          "0x10",     "1125899906842625",
                          "1048577G", "99999999999999999999999999",
                          "G1",       "1%1"}) {
    settings = Unusual();
    EXPECT_EQ(
        Read("TCMALLOC_SOFT_LIMIT", bad, &settings),
        "tcmalloc: TCMALLOC_SOFT_LIMIT=" + std::string(bad) +
            " is ignored: expected bytes (suffixes K, M, G, T) from 0 to 1125899906842624, or "
            "1% to 100%; using 0\n");
    EXPECT_TRUE(settings == Unusual()) << bad;
  }
}

TEST(SettingsDeathTest, WhatIsGivenIsNoted) {
  EXPECT_EXIT(
      {
        clearenv();
        setenv("TCMALLOC_RELEASE_RATE", "1.0", 1);  // the default
        setenv("TCMALLOC_SAMPLE_SEED", "many", 1);  // is ignored
        setenv("TCMALLOC_SKIP_SBRK", "yes", 1);
        setenv("TCMALLOC_PROFILE", "/tmp/a\n,peak", 1);
        setenv("TCMALLOC_STATS_EVERY", "10s", 1);
        Settings settings;
        ReadSettings(false, &settings);
        _exit(write(STDERR_FILENO, settings.given, strlen(settings.given)) > 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "\nTCMALLOC_SKIP_SBRK=yes TCMALLOC_PROFILE=/tmp/a.,peak TCMALLOC_STATS_EVERY=10s$");
}

// Whatever their lengths: what fits is whole, and a mark says that there is more.
TEST(SettingsDeathTest, MoreIsGivenThanIsNoted) {
  for (size_t length = 1; length <= 90; ++length) {
    EXPECT_EXIT(
        {
          clearenv();
          const std::string text(length, 'x');
          for (const char* name :
               {"TCMALLOC_PROFILE", "TCMALLOC_PRESSURE", "TCMALLOC_STATS_EVERY", "HEAPPROFILE",
                "PPROF_PATH", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
            setenv(name, text.c_str(), 1);
          }
          Settings settings;
          ReadSettings(false, &settings);
          const std::string given = settings.given;
          const bool all = given.find("SLURM_PROCID=" + text) != std::string::npos;
          const bool marked = given.size() > 4 && given.substr(given.size() - 4) == " ...";
          _exit(given.size() < sizeof(settings.given) && all != marked ? 0 : 1);
        },
        testing::ExitedWithCode(0), "")
        << length;
  }
}

// Wherever bytes are, whichever library the variable comes from.
TEST(SettingsTest, EverySizeTakesSuffixes) {
  size_t sizes = 0;
  SettingDescription setting;
  for (size_t i = 0; DescribeSetting(i, &setting); ++i) {
    char buffer[200];
    TextWriter range(buffer, sizeof(buffer));
    WriteSettingRange(i, &range);
    if (range.text().find("suffix") == std::string_view::npos) continue;
    ++sizes;
    const std::string name(setting.name);
    Settings with_suffix;
    Settings in_bytes;
    EXPECT_EQ(Read(name, "3MiB", &with_suffix), "");
    const bool mebibytes = range.text().find("MiB") != std::string_view::npos;
    EXPECT_EQ(Read(name, mebibytes ? "3" : "3145728", &in_bytes), "");
    EXPECT_TRUE(with_suffix == in_bytes) << name;
    EXPECT_FALSE(with_suffix == Settings()) << name;
    for (const char* const text : {"3m", "3M", "3mb", "3MB", "3072k", "3072KiB"}) {
      Settings settings;
      EXPECT_EQ(Read(name, text, &settings), "") << name << "=" << text;
      EXPECT_TRUE(settings == in_bytes) << name << "=" << text;
    }
  }
  EXPECT_EQ(sizes, 12u);
  Settings settings;
  EXPECT_EQ(Read("HEAP_PROFILE_ALLOCATION_INTERVAL", "2G", &settings), "");
  EXPECT_EQ(settings.heap_profile_allocation_interval, uint64_t{2} << 30);
  EXPECT_EQ(Read("HEAP_PROFILE_INUSE_INTERVAL", "-1M", &settings), "");
  EXPECT_EQ(settings.heap_profile_inuse_interval, 0u);
  EXPECT_NE(Read("HEAP_PROFILE_TIME_INTERVAL", "1K", &settings), "") << "these are seconds";
}

// gperftools takes a variable without text for true.
TEST(SettingsTest, AnEmptyBooleanIsTrue) {
  Settings settings;
  EXPECT_EQ(Read("TCMALLOC_SKIP_SBRK", "", &settings), "");
  EXPECT_TRUE(settings.skip_sbrk);
  EXPECT_EQ(Read("TCMALLOC_AGGRESSIVE_DECOMMIT", "", &settings), "");
  EXPECT_TRUE(settings.aggressive_decommit);
}

TEST(SettingsTest, MisspeltNames) {
  const auto complaint = [](const std::string& name) {
    Settings settings = Unusual();
    const std::string text = Read(name, "1", &settings);
    EXPECT_TRUE(settings == Unusual()) << name;
    return text;
  };
  const std::pair<const char*, const char*> kMeant[] = {
      {"MALLOCSTAT", "MALLOCSTATS"},
      {"MALLOC_STATS", "MALLOCSTATS"},
      {"MALLOCSTATS2", "MALLOCSTATS"},
      {"TCMALLOC_CHEK", "TCMALLOC_CHECK"},
      {"TCMALLOC_CHECK ", "TCMALLOC_CHECK"},
      {"TCMALLO_CHECK", "TCMALLOC_CHECK"},
      {"HEAPCHEK", "HEAPCHECK"},
      {"HEAP_CHECK", "HEAPCHECK"},
      {"HEAPPROFIL", "HEAPPROFILE"},
      {"HEAP_PROFILE", "HEAPPROFILE"},
      {"HEAP_PROFILE_SIGNAL", "HEAPPROFILESIGNAL"},
      {"HEAP_PROFILE_INTERVAL", "HEAP_PROFILE_TIME_INTERVAL"},
      {"HEAP_CHECK_DUMP_DIRECTRY", "HEAP_CHECK_DUMP_DIRECTORY"},
      {"PPROFPATH", "PPROF_PATH"},
      {"TCMALLOC_RELEASE_RATES", "TCMALLOC_RELEASE_RATE"},
      {"TCMALLOC_HEAP_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"},
      {"TCMALLOC_BACKGROUND_THREAD", "TCMALLOC_BACKGROUND"},
      {"TCMALLOC_SOFTLIMIT", "TCMALLOC_SOFT_LIMIT"},
  };
  for (const auto& [name, meant] : kMeant) {
    EXPECT_EQ(complaint(name), std::string("tcmalloc: ") + name +
                                   " is ignored: there is no such setting; did you mean " + meant +
                                   "?\n");
  }
  EXPECT_EQ(complaint("TCMALLOC_NOTHING_LIKE_IT"),
            "tcmalloc: TCMALLOC_NOTHING_LIKE_IT is ignored: there is no such setting\n");
}

// Of the C library, other allocators, those who start processes, and programs.
TEST(SettingsTest, VariablesOfOthersAreNoMisspeltOnes) {
  for (const char* name : {"MALLOC_ARENA_MAX",
                           "MALLOC_ARENA_TEST",
                           "MALLOC_CHECK_",
                           "MALLOC_CONF",
                           "MALLOC_OPTIONS",
                           "MALLOC_PERTURB_",
                           "MALLOC_TOP_PAD_",
                           "MALLOC_TRACE",
                           "MALLOC_TRIM_THRESHOLD_",
                           "MALLOC_MMAP_THRESHOLD_",
                           "MALLOC_MMAP_MAX_",
                           "MALLOC_TCACHE_COUNT",
                           "MIMALLOC_SHOW_STATS",
                           "JEMALLOC_STATS",
                           "SLURM_JOBID",
                           "SLURM_JOB_IDS",
                           "SLURM_NPROCS",
                           "SLURM_LOCALID",
                           "PMI_SIZE",
                           "PMI_RANKS",
                           "PMIX_RANKS",
                           "PMIX_NAMESPACE",
                           "OMPI_HOMES",
                           "OMPI_COMM_WORLD_RANK",
                           "HEAP_SIZE",
                           "HEAPSIZE",
                           "HEAP_DUMP_PATH",
                           "HEAP_NEWSIZE",
                           "HEAPDUMP",
                           "HEAP",
                           "HEAP_PROFILE_DIR",
                           "HEAP_PROFILER_ENABLED",
                           "MALLOC",
                           "PPROF_TMPDIR",
                           "PPROF_TOOLS",
                           "PPROF_BINARY_PATH_LIST",
                           "TERM",
                           "TCLLIBPATH",
                           "TCMD",
                           "PATH",
                           "HOME",
                           "",
                           "GLIBC_TUNABLES"}) {
    Settings settings = Unusual();
    EXPECT_EQ(Read(name, "1", &settings), "") << name;
  }
}

TEST(SettingsDocumentationTest, DefaultsAreThoseOfTheStructure) {
  const auto rows = DocumentedRows();
  EXPECT_EQ(rows.size(), 58u);
  Settings settings = Unusual();
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 4u);
    EXPECT_EQ(Read(row[0], row[1] == "\"\"" ? "" : row[1], &settings), "");
    EXPECT_FALSE(row[3].empty());
  }
  EXPECT_TRUE(settings == Settings());
}

TEST(SettingsDocumentationTest, NoSettingIsSaidToHaveNoEffect) {
  const std::vector<std::string> ignored = DocumentedIgnoredNames();
  for (const std::vector<std::string>& row : DocumentedRows()) {
    EXPECT_EQ(std::count(ignored.begin(), ignored.end(), row.at(0)), 0) << row.at(0);
  }
}

TEST(SettingsDocumentationTest, TextIsBroken) {
  std::istringstream text(Documentation());
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("|", 0) == 0) continue;  // a row of a table is one line
    EXPECT_LE(line.size(), 100u) << line;
  }
}

// To write the file: WRITE_DOCS=1 build/release/bin/runtime_test
// --gtest_filter='SettingsDocumentation*'
TEST(SettingsDocumentationTest, TheFileIsTheTable) {
  if (getenv("WRITE_DOCS") != nullptr)
    std::ofstream(TCMALLOC_SETTINGS_DOCUMENTATION) << Documentation();
  std::ifstream file(TCMALLOC_SETTINGS_DOCUMENTATION);
  ASSERT_TRUE(file.good()) << "no " TCMALLOC_SETTINGS_DOCUMENTATION;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, Documentation())
      << "docs/settings.md differs from the table in src/runtime/settings.cc. To write it anew: "
         "WRITE_DOCS=1 build/release/bin/runtime_test --gtest_filter='SettingsDocumentation*'";
}

}  // namespace
}  // namespace tcmalloc
