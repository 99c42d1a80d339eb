// SPDX-License-Identifier: BSD-3-Clause
#include "config/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings_table.h"
#include "heap/large_reports.h"
#include "page/memory_limit.h"
#include "page/retention.h"
#include "testing/random.h"
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
  EXPECT_EQ(a->min_thread_cache_bytes, kTuning.cache_budget.min_per_cache_bytes);
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
      {"MALLOCSTATS", "", "integer from 0 to 2; using 0"},
      {"HEAP_CHECK_MAX_LEAKS", "all",
       "integer from -1125899906842624 to 1125899906842624; using 20"},
      {"HEAP_PROFILE_TIME_INTERVAL", "1K", "integer from -4294967296 to 4294967296; using 0"},
      {"TCMALLOC_RELEASE_RATE", "1000.1", "number from 0 to 1000; using 1.0"},
      {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", "-1125899906842625",
       "bytes (suffixes K, M, G, T) from -1125899906842624 to 1125899906842624; using 1073741824"},
      {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "-2",
       "bytes (suffixes K, M, G, T) from -1 to 1125899906842624; using -1"},
      {"TCMALLOC_HEAP_LIMIT_MB", "1500K",
       "MiB (or with a suffix K, M, G, T) from 0 to 1073741824; using 0"},
      {"TCMALLOC_DEVMEM_START", "-1",
       "MiB (or with a suffix K, M, G, T) from 0 to 1099511627776; using 0"},
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

TEST(SettingsTest, Limits) {
  Settings settings;
  EXPECT_EQ(settings.hard_limit_bytes, kNoLimit);
  EXPECT_EQ(settings.soft_limit.bytes, kNoLimit);
  EXPECT_EQ(settings.soft_limit.percent, 0u);
  for (const auto& [text, bytes] :
       {std::pair("1", Clamped(uint64_t{1} << 20)), std::pair("0", kNoLimit),
        std::pair("4GiB", Clamped(uint64_t{4} << 30)), std::pair("0G", kNoLimit),
        std::pair("1073741824", Clamped(uint64_t{1} << 50))}) {
    EXPECT_EQ(Read("TCMALLOC_HEAP_LIMIT_MB", text, &settings), "");
    EXPECT_EQ(settings.hard_limit_bytes, bytes) << text;
  }
  for (const auto& [text, bytes, percent] :
       {std::tuple("1", size_t{1}, 0u), std::tuple("0", kNoLimit, 0u),
        std::tuple("700M", Clamped(uint64_t{700} << 20), 0u), std::tuple("80%", kNoLimit, 80u),
        std::tuple("1024T", Clamped(uint64_t{1} << 50), 0u), std::tuple("1%", kNoLimit, 1u)}) {
    EXPECT_EQ(Read("TCMALLOC_SOFT_LIMIT", text, &settings), "");
    EXPECT_EQ(settings.soft_limit.bytes, bytes) << text;
    EXPECT_EQ(settings.soft_limit.percent, percent) << text;
  }
  // Addresses have 64 bits on every machine.
  for (const auto& [text, bytes] : {std::pair("0", uint64_t{0}), std::pair("3", uint64_t{3} << 20),
                                    std::pair("1099511627776", uint64_t{1} << 60)}) {
    EXPECT_EQ(Read("TCMALLOC_DEVMEM_START", text, &settings), "");
    EXPECT_EQ(settings.devmem_start_bytes, bytes) << text;
  }
}

TEST(SettingsTest, ThresholdOfLargeAllocations) {
  Settings settings;
  EXPECT_EQ(settings.large_report_threshold_bytes, size_t{1} << 30);
  EXPECT_FALSE(settings.large_report_lines) << "the variable is not set";
  for (const auto& [text, bytes] :
       {std::pair("1", size_t{1}), std::pair("1073741824", size_t{1} << 30),
        std::pair("0", LargeReports::kNever), std::pair("-1", LargeReports::kNever)}) {
    settings = Settings();
    EXPECT_EQ(Read("TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", text, &settings), "");
    EXPECT_EQ(settings.large_report_threshold_bytes, bytes) << text;
    EXPECT_TRUE(settings.large_report_lines);
  }
}

TEST(SettingsTest, TotalOfThreadCaches) {
  Settings settings;
  EXPECT_EQ(settings.max_total_thread_cache_bytes, -1);
  EXPECT_EQ(Read("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "0", &settings), "");
  EXPECT_EQ(settings.max_total_thread_cache_bytes, 0);
  EXPECT_EQ(Read("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "1125899906842624", &settings), "");
  EXPECT_EQ(settings.max_total_thread_cache_bytes, int64_t{1} << 50);
  EXPECT_EQ(Read("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "-1", &settings), "");
  EXPECT_EQ(settings.max_total_thread_cache_bytes, -1);
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
  // These variables only have to be set: their values and lengths do not matter.
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
    EXPECT_NE(Read("TCMALLOC_STACKTRACE_METHOD", bad, &settings), "") << bad;
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
    ASSERT_LE(settings.soft_limit.percent, 100u);
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

// Tests all settings that are sizes in bytes, also those of the full library.
TEST(SettingsTest, EverySizeTakesSuffixes) {
  size_t sizes = 0;
  for (const SettingRow& row : kSettingRows) {
    const SettingType type = row.setting.type;
    const bool mebibytes = type == SettingType::kMebibytes;
    if (!mebibytes && type != SettingType::kBytes && type != SettingType::kBytesOrPercent) continue;
    ++sizes;
    const std::string name = row.setting.name.text;
    Settings with_suffix;
    Settings in_bytes;
    EXPECT_EQ(Read(name, "3MiB", &with_suffix), "");
    EXPECT_EQ(Read(name, mebibytes ? "3" : "3145728", &in_bytes), "");
    EXPECT_TRUE(with_suffix == in_bytes) << name;
    EXPECT_FALSE(with_suffix == Settings()) << name;
    for (const char* const text : {"3m", "3M", "3mb", "3MB", "3072k", "3072KiB"}) {
      Settings settings;
      EXPECT_EQ(Read(name, text, &settings), "") << name << "=" << text;
      EXPECT_TRUE(settings == in_bytes) << name << "=" << text;
    }
  }
  EXPECT_EQ(sizes, 14u);
  Settings settings;
  EXPECT_EQ(Read("HEAP_PROFILE_ALLOCATION_INTERVAL", "2G", &settings), "");
  EXPECT_EQ(settings.heap_profile_allocation_interval, uint64_t{2} << 30);
  EXPECT_EQ(Read("HEAP_PROFILE_INUSE_INTERVAL", "-1M", &settings), "");
  EXPECT_EQ(settings.heap_profile_inuse_interval, 0u);
  EXPECT_NE(Read("HEAP_PROFILE_TIME_INTERVAL", "1K", &settings), "") << "these are seconds";
}

}  // namespace
}  // namespace tcmalloc
