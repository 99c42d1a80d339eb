// SPDX-License-Identifier: BSD-3-Clause
#include "config/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "config/settings_table.h"
#include "page_heap/memory_limit.h"
#include "page_heap/retention.h"
#include "process/large_reports.h"
#include "testing/same_settings.h"

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

// Reads a value that is not the setting's default.
void ReadAnother(const Setting& setting, Settings* settings) {
  for (const char* text : {"true", "false", "7", "3M", "50%", "strict", "fp", "/other"}) {
    const std::string complaint = Read(setting.name.text, text, settings);
    if (complaint.empty() && !HaveSame(setting.field, *settings, Settings())) return;
  }
  Read(setting.name.text, "2", settings);
  EXPECT_FALSE(HaveSame(setting.field, *settings, Settings())) << setting.name.text;
}

// Values that are different from all defaults.
const Settings& Unusual() {
  static const Settings unusual = [] {
    Settings settings;
    for (const SettingRow& row : kSettingRows) ReadAnother(row.setting, &settings);
    settings.large_report_lines = false;
    return settings;
  }();
  return unusual;
}

// The previous contents of the memory have no effect.
TEST(SettingsTest, TheConstructorSetsEverySetting) {
  alignas(Settings) static char memory[2][sizeof(Settings)];
  memset(memory[0], 0xa5, sizeof(memory[0]));
  memset(memory[1], 0x5a, sizeof(memory[1]));
  const Settings* const a = new (memory[0]) Settings;
  const Settings* const b = new (memory[1]) Settings;
  for (const SettingRow& row : kSettingRows) {
    EXPECT_TRUE(HaveSame(row.setting.field, *a, *b)) << row.setting.name.text;
  }
  EXPECT_STREQ(a->given, "");
  EXPECT_EQ(a->min_thread_cache_bytes, kMinPerCacheBytes);
}

TEST(SettingsTest, EverySettingHasAFieldOfItsOwn) {
  for (const SettingRow& set : kSettingRows) {
    Settings settings;
    ReadAnother(set.setting, &settings);
    for (const SettingRow& row : kSettingRows) {
      EXPECT_EQ(HaveSame(row.setting.field, settings, Settings()), &row != &set)
          << set.setting.name.text << " and " << row.setting.name.text;
    }
    Read(set.setting.name.text, set.setting.default_text.text, &settings);
    EXPECT_TRUE(settings == Settings()) << set.setting.name.text;
  }
}

// The complaint about a setting of each type names its possible values and the default that is used
// instead.
TEST(SettingsTest, Complaints) {
  const struct {
    const char* name;
    const char* value;
    const char* rest;
  } kBad[] = {
      {"TCMALLOC_CHECK", "2", "0 or 1, false or true, no or yes, off or on; using false"},
      {"TCMALLOC_MEMBARRIER", " 1", "0 or 1, false or true, no or yes, off or on; using true"},
      {"MALLOCSTATS", "3", "integer from 0 to 2; using 0"},
      {"TCMALLOC_RELEASE_RATE", "1000.1", "number from 0 to 1000; using 1.0"},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "-1125899906842625",
       "bytes (suffixes K, M, G, T) from -1125899906842624 to 1125899906842624; using 1073741824"},
      {"TCMALLOC_HEAP_LIMIT_MB", "1500K",
       "MiB (or with a suffix K, M, G, T) from 0 to 1073741824; using 0"},
      {"TCMALLOC_SOFT_LIMIT", "101%",
       "bytes (suffixes K, M, G, T) from 0 to 1125899906842624, or 1% to 100%; using 0"},
      {"HEAPCHECK", "1", "one of minimal, normal, strict, draconian, as-is, local; using \"\""},
      {"TCMALLOC_STACKTRACE_METHOD", "aut",
       "one of auto, cfi, fp, none, libgcc, libunwind, generic_fp, generic_fp_unsafe, x86, arm, "
       "ppc, instrument, null; using auto"},
  };
  for (const auto& [name, value, rest] : kBad) {
    Settings settings = Unusual();
    EXPECT_EQ(Read(name, value, &settings), std::string("tcmalloc: ") + name + "=" + value +
                                                " is ignored: expected " + rest + "\n");
    EXPECT_TRUE(settings == Unusual()) << name;
    EXPECT_FALSE(settings.large_report_lines);
  }
  // A long value is shortened.
  Settings settings = Unusual();
  EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", std::string(5000, '9'), &settings),
            "tcmalloc: TCMALLOC_RELEASE_RATE=" + std::string(100, '9') +
                " is ignored: expected number from 0 to 1000; using 1.0\n");
  EXPECT_TRUE(settings == Unusual());
}

// Values beyond 32 bits become the largest number of 32 bits.
constexpr size_t Clamped(uint64_t bytes) {
  return static_cast<size_t>(std::min<uint64_t>(bytes, SIZE_MAX));
}

// The value that the library reads from a text, as a number.
template <auto kField>
uint64_t FieldOf(const Settings& settings) {
  return static_cast<uint64_t>(settings.*kField);
}
struct Meaning {
  const char* name;
  const char* text;  // null for a variable that is not set
  uint64_t (*field)(const Settings& settings);
  uint64_t expected;
};

uint64_t SoftBytes(const Settings& settings) { return settings.soft_limit.bytes; }
uint64_t SoftPercent(const Settings& settings) { return settings.soft_limit.percent; }

TEST(SettingsTest, Meanings) {
  using S = Settings;
  constexpr auto kHard = &FieldOf<&S::hard_limit_bytes>;
  constexpr auto kDevmem = &FieldOf<&S::devmem_start_bytes>;
  constexpr auto kThreshold = &FieldOf<&S::large_report_threshold_bytes>;
  constexpr auto kLines = &FieldOf<&S::large_report_lines>;
  constexpr auto kCaches = &FieldOf<&S::max_total_thread_cache_bytes>;
  constexpr auto kCheck = &FieldOf<&S::heap_check>;
  constexpr auto kLeaks = &FieldOf<&S::heap_check_max_leaks>;
  constexpr auto kOffset = &FieldOf<&S::heap_check_max_pointer_offset>;
  constexpr auto kAllocated = &FieldOf<&S::heap_profile_allocation_interval>;
  constexpr auto kFreed = &FieldOf<&S::heap_profile_deallocation_interval>;
  constexpr auto kInUse = &FieldOf<&S::heap_profile_inuse_interval>;
  constexpr auto kTime = &FieldOf<&S::heap_profile_time_interval_seconds>;
  constexpr auto kSignal = &FieldOf<&S::heap_profile_signal>;
  constexpr auto kMethod = &FieldOf<&S::stack_trace_method>;
  const auto number = [](auto value) { return static_cast<uint64_t>(value); };
  const Meaning kMeanings[] = {
      {"TCMALLOC_HEAP_LIMIT_MB", nullptr, kHard, kNoLimit},
      {"TCMALLOC_HEAP_LIMIT_MB", "1", kHard, uint64_t{1} << 20},
      {"TCMALLOC_HEAP_LIMIT_MB", "0G", kHard, kNoLimit},
      {"TCMALLOC_HEAP_LIMIT_MB", "1073741824", kHard, Clamped(uint64_t{1} << 50)},
      {"TCMALLOC_SOFT_LIMIT", nullptr, &SoftBytes, kNoLimit},
      {"TCMALLOC_SOFT_LIMIT", "1", &SoftBytes, 1},
      {"TCMALLOC_SOFT_LIMIT", "0", &SoftBytes, kNoLimit},
      {"TCMALLOC_SOFT_LIMIT", "1024T", &SoftBytes, Clamped(uint64_t{1} << 50)},
      {"TCMALLOC_SOFT_LIMIT", "80%", &SoftBytes, kNoLimit},
      {"TCMALLOC_SOFT_LIMIT", "80%", &SoftPercent, 80},
      // Addresses have 64 bits on every machine.
      {"TCMALLOC_DEVMEM_START", "1099511627776", kDevmem, uint64_t{1} << 60},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", nullptr, kThreshold, uint64_t{1} << 30},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", nullptr, kLines, false},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "1073741824", kLines, true},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "1", kThreshold, 1},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "0", kThreshold, LargeReports::kNever},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "-1", kThreshold, LargeReports::kNever},
      {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", nullptr, kCaches, UINT64_MAX},
      {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "0", kCaches, 0},
      {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "1024T", kCaches, uint64_t{1} << 50},
      {"HEAPCHECK", "", kCheck, number(HeapCheckMode::kOff)},
      {"HEAPCHECK", "minimal", kCheck, number(HeapCheckMode::kMinimal)},
      {"HEAPCHECK", "normal", kCheck, number(HeapCheckMode::kNormal)},
      {"HEAPCHECK", "STRICT", kCheck, number(HeapCheckMode::kStrict)},
      {"HEAPCHECK", "draconian", kCheck, number(HeapCheckMode::kDraconian)},
      {"HEAPCHECK", "as-is", kCheck, number(HeapCheckMode::kAsIs)},
      {"HEAPCHECK", "local", kCheck, number(HeapCheckMode::kLocal)},
      {"HEAP_CHECK_MAX_LEAKS", "0", kLeaks, UINT64_MAX},
      {"HEAP_CHECK_MAX_LEAKS", "-3", kLeaks, UINT64_MAX},
      {"HEAP_CHECK_MAX_POINTER_OFFSET", "-1", kOffset, UINT64_MAX},
      {"HEAP_PROFILE_ALLOCATION_INTERVAL", nullptr, kAllocated, uint64_t{1} << 30},
      {"HEAP_PROFILE_ALLOCATION_INTERVAL", "-77", kAllocated, 0},
      {"HEAP_PROFILE_DEALLOCATION_INTERVAL", "12345", kFreed, 12345},
      {"HEAP_PROFILE_INUSE_INTERVAL", nullptr, kInUse, uint64_t{100} << 20},
      {"HEAP_PROFILE_INUSE_INTERVAL", "-1M", kInUse, 0},
      {"HEAP_PROFILE_TIME_INTERVAL", "77", kTime, 77},
      {"HEAP_PROFILE_TIME_INTERVAL", "-77", kTime, 0},
      {"HEAPPROFILESIGNAL", "12", kSignal, 12},
      // These variables only have to be set.
      {"OMPI_HOME", "0", &FieldOf<&S::has_open_mpi>, true},
      {"OMPI_HOME", "", &FieldOf<&S::has_open_mpi>, false},
      {"SLURM_JOB_ID", "x", &FieldOf<&S::in_slurm_job>, true},
      {"TCMALLOC_STACKTRACE_METHOD", "cfi", kMethod, number(StackTraceMethod::kCallFrameInfo)},
      {"TCMALLOC_STACKTRACE_METHOD", "FP", kMethod, number(StackTraceMethod::kFramePointers)},
      {"TCMALLOC_STACKTRACE_METHOD", "none", kMethod, number(StackTraceMethod::kNone)},
      {"TCMALLOC_STACKTRACE_METHOD", "libgcc", kMethod, number(StackTraceMethod::kCallFrameInfo)},
      {"TCMALLOC_STACKTRACE_METHOD", "generic_fp_unsafe", kMethod,
       number(StackTraceMethod::kFramePointers)},
      {"TCMALLOC_STACKTRACE_METHOD", "null", kMethod, number(StackTraceMethod::kNone)},
  };
  for (const auto& [name, text, field, expected] : kMeanings) {
    Settings settings;
    if (text != nullptr) {
      EXPECT_EQ(Read(name, text, &settings), "");
    }
    EXPECT_EQ(field(settings), expected) << name << "=" << (text == nullptr ? "(unset)" : text);
  }
  const std::pair<const char*, const char*> kBad[] = {
      {"HEAP_CHECK_MAX_POINTER_OFFSET", "-2"},
      {"HEAP_CHECK_POINTER_SOURCE_ALIGNMENT", "0"},
      {"HEAP_PROFILE_ALLOCATION_INTERVAL", ""},
      {"HEAP_PROFILE_INUSE_INTERVAL", "1.5"},
      {"HEAPPROFILESIGNAL", "65"},
      {"HEAPPROFILESIGNAL", "-1"},
      {"TCMALLOC_STACKTRACE_METHOD", ""},
      {"TCMALLOC_STACKTRACE_METHOD", "fpp"},
  };
  for (const auto& [name, text] : kBad) {
    Settings settings = Unusual();
    EXPECT_NE(Read(name, text, &settings), "") << name << "=" << text;
    EXPECT_TRUE(settings == Unusual()) << name << "=" << text;
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
  // A path that is too long is not shortened: that would name another file.
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

// A variable must not write control sequences to the terminal, or lines of its own.
TEST(SettingsTest, AComplaintIsOneLineWhateverTheVariable) {
  Settings settings;
  EXPECT_EQ(Read("TCMALLOC_CHECK", "a\nb\tc\x1b[2Jd\xff", &settings),
            "tcmalloc: TCMALLOC_CHECK=a?b?c?[2Jd? is ignored: expected 0 or 1, false or true, "
            "no or yes, off or on; using false\n");
  EXPECT_EQ(Read("TCMALLOC_A\nB", "", &settings),
            "tcmalloc: TCMALLOC_A?B is ignored: there is no such setting\n");
}

TEST(SettingsTest, TheSmallPresetIsWhatItsDocumentationSays) {
  Settings settings;
  UseSmallPreset(&settings);
  EXPECT_TRUE(settings.small);
  EXPECT_EQ(settings.retention_bytes, size_t{2} << 20);
  EXPECT_EQ(settings.max_total_thread_cache_bytes, -1) << "half of that";
  EXPECT_EQ(settings.min_thread_cache_bytes, size_t{16} << 10);
  EXPECT_FALSE(settings.hugepages);
  EXPECT_EQ(settings.release_rate, 10);
  EXPECT_EQ(Read("TCMALLOC_RELEASE_RATE", "2", &settings), "");
  EXPECT_EQ(settings.release_rate, 2) << "a variable that is set prevails";
}

}  // namespace
}  // namespace tcmalloc
