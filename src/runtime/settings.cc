// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/settings.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/near_name.h"
#include "base/text_fields.h"
#include "os/environment.h"
#include "os/log.h"
#include "page/release_policy.h"

namespace tcmalloc {
namespace {

// kBytes: bytes, also with a suffix (UnitOf). kSize: the same, or a percentage, which is stored as
// a negative number. kMebibytes: a number of MiB, or with a suffix bytes that are whole MiB.
// kPresence: whether there is any text. kChoice: one of some words, which is stored as its number.
enum class Type : uint8_t {
  kBool,
  kInteger,
  kDouble,
  kBytes,
  kSize,
  kMebibytes,
  kText,
  kPresence,
  kChoice
};

struct Choice {
  const char* word;
  int value;
};

// What may be said of a setting besides its value.
using Traits = unsigned;
constexpr Traits kNoTraits = 0;
// Not read by programs with more rights than their users.
constexpr Traits kNamesFiles = 1;
// Without effect in the minimal library.
constexpr Traits kFullLibrary = 2;

struct Setting {
  std::string_view name;
  Traits traits;
  Type type;
  const char* default_text;
  double min;
  double max;
  void (*store)(Settings* settings, double value);
  // kText: where it is copied to, kSettingTextBytes long.
  char* (*text)(Settings* settings) = nullptr;
  // kChoice: the words.
  const Choice* choices = nullptr;
  size_t num_choices = 0;
};

constexpr bool Has(const Setting& setting, Traits trait) { return (setting.traits & trait) != 0; }

template <size_t kNum>
constexpr Setting Chooses(const Choice (&choices)[kNum], Setting setting) {
  setting.choices = choices;
  setting.num_choices = kNum;
  return setting;
}

// The first of each are ours, then the nearest to those that the library had whose interface this
// one keeps.
constexpr Choice Method(const char* word, StackTraceMethod method) {
  return {word, static_cast<int>(method)};
}
constexpr Choice kStackTraceMethods[] = {
    Method("auto", StackTraceMethod::kAuto),
    Method("cfi", StackTraceMethod::kCallFrameInfo),
    Method("fp", StackTraceMethod::kFramePointers),
    Method("none", StackTraceMethod::kNone),
    Method("libgcc", StackTraceMethod::kCallFrameInfo),
    Method("libunwind", StackTraceMethod::kCallFrameInfo),
    Method("generic_fp", StackTraceMethod::kFramePointers),
    Method("generic_fp_unsafe", StackTraceMethod::kFramePointers),
    Method("x86", StackTraceMethod::kFramePointers),
    Method("arm", StackTraceMethod::kFramePointers),
    Method("ppc", StackTraceMethod::kFramePointers),
    Method("instrument", StackTraceMethod::kFramePointers),
    Method("null", StackTraceMethod::kNone),
};

constexpr Choice Mode(const char* word, BackgroundMode mode) {
  return {word, static_cast<int>(mode)};
}
// The words of a boolean (ParseBool), and one more.
constexpr Choice kBackgroundModes[] = {
    Mode("auto", BackgroundMode::kAuto),   Mode("0", BackgroundMode::kNever),
    Mode("1", BackgroundMode::kAtLoad),    Mode("false", BackgroundMode::kNever),
    Mode("true", BackgroundMode::kAtLoad), Mode("no", BackgroundMode::kNever),
    Mode("yes", BackgroundMode::kAtLoad),  Mode("off", BackgroundMode::kNever),
    Mode("on", BackgroundMode::kAtLoad),   Mode("f", BackgroundMode::kNever),
    Mode("t", BackgroundMode::kAtLoad),    Mode("n", BackgroundMode::kNever),
    Mode("y", BackgroundMode::kAtLoad),    Mode("", BackgroundMode::kAtLoad),
};

constexpr Choice Mode(const char* word, HeapCheckMode mode) {
  return {word, static_cast<int>(mode)};
}
constexpr Choice kHeapCheckModes[] = {
    Mode("minimal", HeapCheckMode::kMinimal),
    Mode("normal", HeapCheckMode::kNormal),
    Mode("strict", HeapCheckMode::kStrict),
    Mode("draconian", HeapCheckMode::kDraconian),
    Mode("as-is", HeapCheckMode::kAsIs),
    Mode("local", HeapCheckMode::kLocal),
    Mode("", HeapCheckMode::kOff),
};

// Far beyond what any machine has, and exact as a double.
constexpr double kMaxCacheBytes = double{1ull << 50};
constexpr double kMaxLimitBytes = double{1ull << 50};

size_t LimitBytes(double bytes) {
  return bytes == 0 || bytes >= static_cast<double>(kNoLimit) ? kNoLimit
                                                              : static_cast<size_t>(bytes);
}

// Addresses in MiB that leave room for all that is done with them.
constexpr double kMaxMebibytes = double{1ull << 40};

// What no address space holds is as much as there are addresses.
size_t AsBytes(double value) {
  return value < static_cast<double>(SIZE_MAX) ? static_cast<size_t>(value) : SIZE_MAX;
}

// What is not above zero is no threshold.
size_t ThresholdBytes(double value) { return value <= 0 ? LargeReports::kNever : AsBytes(value); }

// What is not above zero is no interval.
uint64_t Interval(double value) { return value <= 0 ? 0 : static_cast<uint64_t>(value); }

// Some hundred years.
constexpr double kMaxSeconds = double{1ull << 32};

// A percentage is negative.
void SetSoftLimit(Settings* settings, double value) {
  settings->soft_limit_bytes = value < 0 ? kNoLimit : LimitBytes(value);
  settings->soft_limit_percent = value < 0 ? static_cast<uint32_t>(-value) : 0;
}

constexpr Setting kSettings[] = {
    Chooses(kHeapCheckModes, {"HEAPCHECK", kNamesFiles | kFullLibrary, Type::kChoice, "", 0, 0,
                              [](Settings* s, double v) {
                                s->heap_check = static_cast<HeapCheckMode>(static_cast<int>(v));
                              }}),
    {"HEAPPROFILE", kNamesFiles | kFullLibrary, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->heap_profile; }},
    {"HEAPPROFILESIGNAL", kNamesFiles | kFullLibrary, Type::kInteger, "0", 0, 64,
     [](Settings* s, double v) { s->heap_profile_signal = static_cast<int>(v); }},
    {"HEAPPROFILE_USE_PID", kNamesFiles | kFullLibrary, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->heap_profile_use_pid = v != 0; }},
    {"HEAP_CHECK_AFTER_DESTRUCTORS", kFullLibrary, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->heap_check_after_destructors = v != 0; }},
    {"HEAP_CHECK_DUMP_DIRECTORY", kNamesFiles | kFullLibrary, Type::kText, "/tmp", 0, 0, nullptr,
     [](Settings* s) { return s->heap_check_dump_directory; }},
    {"HEAP_CHECK_IDENTIFY_LEAKS", kFullLibrary, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->heap_check_identify_leaks = v != 0; }},
    {"HEAP_CHECK_IGNORE_GLOBAL_LIVE", kFullLibrary, Type::kBool, "true", 0, 1,
     [](Settings* s, double v) { s->heap_check_ignore_global_live = v != 0; }},
    {"HEAP_CHECK_IGNORE_THREAD_LIVE", kFullLibrary, Type::kBool, "true", 0, 1,
     [](Settings* s, double v) { s->heap_check_ignore_thread_live = v != 0; }},
    {"HEAP_CHECK_MAX_LEAKS", kFullLibrary, Type::kInteger, "20", -kMaxLimitBytes, kMaxLimitBytes,
     [](Settings* s, double v) {
       s->heap_check_max_leaks = v <= 0 ? UINT64_MAX : static_cast<uint64_t>(v);
     }},
    {"HEAP_CHECK_MAX_POINTER_OFFSET", kFullLibrary, Type::kBytes, "1024", -1, kMaxLimitBytes,
     [](Settings* s, double v) { s->heap_check_max_pointer_offset = static_cast<int64_t>(v); }},
    {"HEAP_CHECK_POINTER_SOURCE_ALIGNMENT", kFullLibrary, Type::kInteger, "8", 1, 8,
     [](Settings* s, double v) {
       s->heap_check_pointer_source_alignment = static_cast<size_t>(v);
     }},
    {"HEAP_CHECK_RUN_UNDER_GDB", kFullLibrary, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->heap_check_run_under_gdb = v != 0; }},
    {"HEAP_CHECK_SHOW_CONTENTS", kNamesFiles | kFullLibrary, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->heap_check_show_contents = v != 0; }},
    {"HEAP_CHECK_TEST_POINTER_ALIGNMENT", kFullLibrary, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->heap_check_test_pointer_alignment = v != 0; }},
    {"HEAP_PROFILE_ALLOCATION_INTERVAL", kFullLibrary, Type::kBytes, "1073741824", -kMaxLimitBytes,
     kMaxLimitBytes,
     [](Settings* s, double v) { s->heap_profile_allocation_interval = Interval(v); }},
    {"HEAP_PROFILE_CLEANUP", kNamesFiles | kFullLibrary, Type::kBool, "true", 0, 1,
     [](Settings* s, double v) { s->heap_profile_cleanup = v != 0; }},
    {"HEAP_PROFILE_DEALLOCATION_INTERVAL", kFullLibrary, Type::kBytes, "0", -kMaxLimitBytes,
     kMaxLimitBytes,
     [](Settings* s, double v) { s->heap_profile_deallocation_interval = Interval(v); }},
    {"HEAP_PROFILE_INUSE_INTERVAL", kFullLibrary, Type::kBytes, "104857600", -kMaxLimitBytes,
     kMaxLimitBytes, [](Settings* s, double v) { s->heap_profile_inuse_interval = Interval(v); }},
    {"HEAP_PROFILE_TIME_INTERVAL", kFullLibrary, Type::kInteger, "0", -kMaxSeconds, kMaxSeconds,
     [](Settings* s, double v) { s->heap_profile_time_interval_seconds = Interval(v); }},
    {"MALLOCSTATS", kNoTraits, Type::kInteger, "0", 0, 2,
     [](Settings* s, double v) { s->malloc_stats = static_cast<int64_t>(v); }},
    {"OMPI_HOME", kNamesFiles, Type::kPresence, "", 0, 0,
     [](Settings* s, double v) { s->has_open_mpi = v != 0; }},
    {"PMIX_RANK", kNamesFiles, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->pmix_rank; }},
    {"PMI_RANK", kNamesFiles, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->pmi_rank; }},
    {"PPROF_PATH", kNamesFiles, Type::kText, "pprof", 0, 0, nullptr,
     [](Settings* s) { return s->pprof_path; }},
    {"SLURM_JOB_ID", kNamesFiles, Type::kPresence, "", 0, 0,
     [](Settings* s, double v) { s->in_slurm_job = v != 0; }},
    {"SLURM_PROCID", kNamesFiles, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->slurm_process; }},
    {"TCMALLOC_AGGRESSIVE_DECOMMIT", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->aggressive_decommit = v != 0; }},
    Chooses(kBackgroundModes, {"TCMALLOC_BACKGROUND", kNoTraits, Type::kChoice, "auto", 0, 0,
                               [](Settings* s, double v) {
                                 s->background = static_cast<BackgroundMode>(static_cast<int>(v));
                               }}),
    {"TCMALLOC_CHECK", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->check = v != 0; }},
    {"TCMALLOC_DEVMEM_DEVICE", kNamesFiles, Type::kText, "/dev/mem", 0, 0, nullptr,
     [](Settings* s) { return s->devmem_device; }},
    {"TCMALLOC_DEVMEM_LIMIT", kNamesFiles, Type::kMebibytes, "0", 0, kMaxMebibytes,
     [](Settings* s, double v) { s->devmem_limit_mb = static_cast<uint64_t>(v); }},
    {"TCMALLOC_DEVMEM_START", kNamesFiles, Type::kMebibytes, "0", 0, kMaxMebibytes,
     [](Settings* s, double v) { s->devmem_start_mb = static_cast<uint64_t>(v); }},
    {"TCMALLOC_DISABLE_MEMORY_RELEASE", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->disable_memory_release = v != 0; }},
    {"TCMALLOC_HEAP_LIMIT_MB", kNoTraits, Type::kMebibytes, "0", 0, kMaxLimitBytes / (1 << 20),
     [](Settings* s, double v) { s->hard_limit_bytes = LimitBytes(v * (1 << 20)); }},
    {"TCMALLOC_HUGEPAGES", kNoTraits, Type::kBool, "true", 0, 1,
     [](Settings* s, double v) { s->hugepages = v != 0; }},
    {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", kNoTraits, Type::kBytes, "1073741824",
     -kMaxLimitBytes, kMaxLimitBytes,
     [](Settings* s, double v) {
       s->large_report_threshold_bytes = ThresholdBytes(v);
       s->large_report_lines = true;
     }},
    {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", kNoTraits, Type::kBytes, "33554432", 0,
     kMaxCacheBytes, [](Settings* s, double v) { s->max_total_thread_cache_bytes = AsBytes(v); }},
    {"TCMALLOC_MEMBARRIER", kNoTraits, Type::kBool, "true", 0, 1,
     [](Settings* s, double v) { s->membarrier = v != 0; }},
    {"TCMALLOC_MEMFS_ABORT_ON_FAIL", kNamesFiles, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->memfs_abort_on_fail = v != 0; }},
    {"TCMALLOC_MEMFS_DISABLE_FALLBACK", kNamesFiles, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->memfs_disable_fallback = v != 0; }},
    {"TCMALLOC_MEMFS_IGNORE_MMAP_FAIL", kNamesFiles, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->memfs_ignore_mmap_fail = v != 0; }},
    {"TCMALLOC_MEMFS_LIMIT_MB", kNamesFiles, Type::kMebibytes, "0", 0, kMaxMebibytes,
     [](Settings* s, double v) { s->memfs_limit_mb = static_cast<uint64_t>(v); }},
    {"TCMALLOC_MEMFS_MALLOC_PATH", kNamesFiles, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->memfs_path; }},
    {"TCMALLOC_MEMFS_MAP_PRIVATE", kNamesFiles, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->memfs_map_private = v != 0; }},
    {"TCMALLOC_PRESSURE", kFullLibrary, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->pressure; }},
    {"TCMALLOC_PROFILE", kNamesFiles | kFullLibrary, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->profile_files; }},
    {"TCMALLOC_RELEASE_RATE", kNoTraits, Type::kDouble, "1.0", 0, ReleasePolicy::kMaxRate,
     [](Settings* s, double v) { s->release_rate = v; }},
    {"TCMALLOC_REPORT_AT_TERM", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->report_at_term = v != 0; }},
    {"TCMALLOC_SAMPLE_PARAMETER", kFullLibrary, Type::kBytes, "0", 0, kMaxCacheBytes,
     [](Settings* s, double v) { s->sample_period_bytes = AsBytes(v); }},
    {"TCMALLOC_SAMPLE_SEED", kFullLibrary, Type::kInteger, "0", 0, kMaxCacheBytes,
     [](Settings* s, double v) { s->sample_seed = static_cast<uint64_t>(v); }},
    {"TCMALLOC_SKIP_MMAP", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->skip_mmap = v != 0; }},
    {"TCMALLOC_SKIP_SBRK", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->skip_sbrk = v != 0; }},
    {"TCMALLOC_SMALL", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->small = v != 0; }},
    {"TCMALLOC_SOFT_LIMIT", kNoTraits, Type::kSize, "0", -100, kMaxLimitBytes, &SetSoftLimit},
    Chooses(kStackTraceMethods,
            {"TCMALLOC_STACKTRACE_METHOD", kFullLibrary, Type::kChoice, "auto", 0, 0,
             [](Settings* s, double v) {
               s->stack_trace_method = static_cast<StackTraceMethod>(static_cast<int>(v));
             }}),
    {"TCMALLOC_STACKTRACE_METHOD_VERBOSE", kNoTraits, Type::kBool, "false", 0, 1,
     [](Settings* s, double v) { s->stack_trace_method_verbose = v != 0; }},
    {"TCMALLOC_STATS_EVERY", kNamesFiles, Type::kText, "", 0, 0, nullptr,
     [](Settings* s) { return s->stats_every; }},
};

// Not string_view's operator: clang puts that into the library as an exported function.
constexpr bool Precedes(std::string_view a, std::string_view b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return a.size() < b.size();
}

// FindSetting looks by halves.
static_assert(std::ranges::is_sorted(kSettings, &Precedes, &Setting::name));

// Variables of the libraries whose binary interface this one keeps that have no effect here, by
// reason (see settings_documentation.cc).
// A group of names, with a space behind each.
constexpr const char* kIgnored[] = {
    "HEAP_PROFILE_MMAP HEAP_PROFILE_ONLY_MMAP HEAP_PROFILE_MMAP_LOG ",
    "CPUPROFILE CPUPROFILE_USE_PID CPUPROFILESIGNAL CPUPROFILE_FREQUENCY CPUPROFILE_REALTIME "
    "CPUPROFILE_PER_THREAD_TIMERS CPUPROFILE_TIMER_SIGNAL PROFILESELECTED ",
    "TCMALLOC_TRACE TCMALLOC_TRACE_FILE TCMALLOC_PAGE_FENCE TCMALLOC_PAGE_FENCE_NEVER_RECLAIM "
    "TCMALLOC_PAGE_FENCE_READABLE TCMALLOC_RECLAIM_MEMORY TCMALLOC_MAX_FREE_QUEUE_SIZE "
    "TCMALLOC_SYMBOLIZE_STACKTRACE ",
    "TCMALLOC_OVERRIDE_PAGESIZE ",
    "TCMALLOC_TRANSFER_NUM_OBJ ",
    "TCMALLOC_ENABLE_SIZED_DELETE ",
    "TCMALLOC_DISABLE_REPLACEMENT ",
    "PERFTOOLS_VERBOSE RUNNING_ON_VALGRIND ",
};

// Room for the names of all that are for the full library, each once, with a comma and a space
// after each.
constexpr size_t kFullLibraryNamesBytes = [] {
  size_t bytes = 0;
  for (const Setting& setting : kSettings) {
    if (Has(setting, kFullLibrary)) bytes += setting.name.size() + 2;
  }
  return bytes;
}();

bool IsIgnored(std::string_view name) {
  for (const char* const group : kIgnored) {
    for (const char* p = group; *p != '\0';) {
      const char* const end = strchr(p, ' ');
      if (name == std::string_view(p, static_cast<size_t>(end - p))) return true;
      p = end + 1;
    }
  }
  return false;
}

constexpr std::string_view kPrefix = "TCMALLOC_";

// Writes the beginning of `text`, enough of it to recognise, on one line: what is no printable
// ASCII character becomes a question mark. (substr would pull in the C++ runtime's range error.)
void WriteShortened(std::string_view text, TextWriter* out) {
  for (const char& c : std::string_view(text.data(), std::min<size_t>(text.size(), 100))) {
    out->Text(c >= ' ' && c <= '~' ? std::string_view(&c, 1) : "?");
  }
}

bool EqualIgnoringCase(const char* a, const char* b) {
  for (; *a != '\0' && *b != '\0'; ++a, ++b) {
    const char lower = *a >= 'A' && *a <= 'Z' ? static_cast<char>(*a - 'A' + 'a') : *a;
    if (lower != *b) return false;
  }
  return *a == *b;
}

bool ParseBool(const char* text, double* value) {
  // gperftools takes a variable without text for true.
  for (const char* yes : {"1", "true", "t", "yes", "y", "on", ""}) {
    if (EqualIgnoringCase(text, yes)) return *value = 1, true;
  }
  for (const char* no : {"0", "false", "f", "no", "n", "off"}) {
    if (EqualIgnoringCase(text, no)) return *value = 0, true;
  }
  return false;
}

// Decimal digits, for doubles with one point among them, nothing else. Not strtod: that depends on
// the locale, which may not be there yet.
bool ParseDecimal(const char* text, bool point_allowed, double* value) {
  double result = 0;
  double unit = 1;
  bool any_digit = false;
  bool behind_point = false;
  for (; *text != '\0'; ++text) {
    if (*text == '.' && point_allowed && !behind_point) {
      behind_point = true;
    } else if (*text >= '0' && *text <= '9') {
      any_digit = true;
      const double digit = *text - '0';
      if (behind_point) {
        unit /= 10;
        result += digit * unit;
      } else {
        result = result * 10 + digit;
      }
    } else {
      return false;
    }
  }
  *value = result;
  return any_digit;
}

// What a suffix multiplies by: K, M, G and T stand for powers of 1024, in any case, alone or as in
// KB and KiB; 0 for what is no suffix.
double UnitOf(const char* suffix) {
  if (*suffix == '\0') return 1;
  double unit = 1;
  for (const char letter : {'k', 'm', 'g', 't'}) {
    unit *= 1024;
    if ((*suffix | 0x20) != letter) continue;
    for (const char* const rest : {"", "b", "ib"}) {
      if (EqualIgnoringCase(suffix + 1, rest)) return unit;
    }
  }
  return 0;
}

// A whole number in front of a suffix, which may be empty.
bool ParseWithSuffix(const char* text, double* value, const char** suffix) {
  char digits[24];
  size_t length = 0;
  while (length + 1 < sizeof(digits) && text[length] >= '0' && text[length] <= '9') {
    digits[length] = text[length];
    ++length;
  }
  digits[length] = '\0';
  *suffix = text + length;
  return ParseDecimal(digits, false, value);
}

bool ParseBytes(const char* text, double* value) {
  const char* suffix;
  if (!ParseWithSuffix(text, value, &suffix)) return false;
  const double unit = UnitOf(suffix);
  *value *= unit;
  return unit != 0;
}

// The same, or % for a part, 1% to 100%.
bool ParseSize(const char* text, double* value) {
  const char* suffix;
  if (!ParseWithSuffix(text, value, &suffix) || std::string_view(suffix) != "%") {
    return ParseBytes(text, value);
  }
  const bool in_range = *value >= 1 && *value <= 100;
  *value = -*value;
  return in_range;
}

bool ParseMebibytes(const char* text, double* value) {
  if (ParseDecimal(text, false, value)) return true;
  constexpr double kMebibyte = double{1 << 20};
  if (!ParseBytes(text, value)) return false;
  // Not more than what every range allows, so that the conversion is defined.
  if (*value > kMaxMebibytes * kMebibyte) return false;
  *value /= kMebibyte;
  return *value == static_cast<double>(static_cast<uint64_t>(*value));
}

bool ParseAs(Type type, const char* text, double* value) {
  switch (type) {
    case Type::kBool:
      return ParseBool(text, value);
    case Type::kInteger:
      return ParseDecimal(text, false, value);
    case Type::kDouble:
      return ParseDecimal(text, true, value);
    case Type::kBytes:
      return ParseBytes(text, value);
    case Type::kSize:
      return ParseSize(text, value);
    case Type::kMebibytes:
      return ParseMebibytes(text, value);
    case Type::kPresence:
      return *value = *text != '\0' ? 1 : 0, true;
    case Type::kText:
    case Type::kChoice:
      return false;
  }
  return false;
}

bool ParseChoice(const Setting& setting, const char* text, double* value) {
  for (size_t i = 0; i < setting.num_choices; ++i) {
    if (EqualIgnoringCase(text, setting.choices[i].word))
      return *value = setting.choices[i].value, true;
  }
  return false;
}

bool CopyText(const char* text, char* buffer) {
  const size_t length = strlen(text);
  if (length >= kSettingTextBytes) return false;
  memcpy(buffer, text, length + 1);
  return true;
}

bool Parse(const Setting& setting, const char* text, double* value) {
  const bool is_signed = setting.type == Type::kInteger || setting.type == Type::kBytes;
  if (is_signed && setting.min < 0 && *text == '-') {
    const bool parsed = ParseAs(setting.type, text + 1, value);
    *value = -*value;
    return parsed && *value >= setting.min;
  }
  if (setting.type == Type::kPresence) return ParseAs(setting.type, text, value);
  if (setting.type == Type::kChoice) return ParseChoice(setting, text, value);
  return ParseAs(setting.type, text, value) && *value >= setting.min && *value <= setting.max;
}

const char* TypeName(Type type) {
  switch (type) {
    case Type::kBool:
      return "boolean";
    case Type::kInteger:
      return "integer";
    case Type::kDouble:
      return "number";
    case Type::kBytes:
    case Type::kSize:
      return "bytes (suffixes K, M, G, T)";
    case Type::kMebibytes:
      return "MiB (or with a suffix K, M, G, T)";
    case Type::kText:
    case Type::kPresence:
      return "text";
    case Type::kChoice:
      return "one of some words";
  }
  return "";
}

void WriteRange(const Setting& setting, TextWriter* out) {
  if (setting.type == Type::kBool) {
    out->Text("0 or 1, false or true, no or yes, off or on");
    return;
  }
  if (setting.type == Type::kPresence) {
    out->Text("any text");
    return;
  }
  if (setting.type == Type::kText) {
    out->Text("text of at most ").Number(kSettingTextBytes - 1).Text(" bytes");
    return;
  }
  if (setting.type == Type::kChoice) {
    out->Text("one of");
    for (size_t i = 0; i < setting.num_choices; ++i) {
      const std::string_view word = setting.choices[i].word;
      if (!word.empty()) out->Text(i == 0 ? " " : ", ").Text(word);
    }
    return;
  }
  // A size below zero stands for a percentage.
  const double min = setting.type == Type::kSize ? 0 : setting.min;
  out->Text(TypeName(setting.type)).Text(min < 0 ? " from -" : " from ");
  out->Number(static_cast<uint64_t>(min < 0 ? -min : min));
  out->Text(" to ").Number(static_cast<uint64_t>(setting.max));
  if (setting.type == Type::kSize) out->Text(", or 1% to 100%");
}

// Reads the value into `settings`; false when it is none.
bool Store(const Setting& setting, const char* text, Settings* settings) {
  if (setting.type == Type::kText) return CopyText(text, setting.text(settings));
  double value = 0;
  if (!Parse(setting, text, &value)) return false;
  setting.store(settings, value);
  return true;
}

std::string_view DefaultText(const Setting& setting) {
  return *setting.default_text == '\0' ? "\"\"" : setting.default_text;
}

void LookForSmall(const char* name, size_t name_length, const char* value, void* context) {
  double small = 0;
  if (std::string_view(name, name_length) != "TCMALLOC_SMALL" || !ParseBool(value, &small)) return;
  *static_cast<bool*>(context) = small != 0;
}

const Setting* FindSetting(std::string_view name) {
  const Setting* const found = std::ranges::lower_bound(kSettings, name, &Precedes, &Setting::name);
  return found != std::end(kSettings) && found->name == name ? found : nullptr;
}

// The beginnings of names that are this library's; PMI_RANK, SLURM_PROCID and OMPI_HOME are
// others', who have more of that kind. Most variables of an environment begin otherwise, and cost
// nothing.
constexpr std::string_view kOwnBeginnings[] = {"TCM", "HEA", "MAL", "PPR"};

// The setting that a variable may be meant to be, though it is none; null for none. Of several the
// one with the fewest differences.
const Setting* MeantSetting(std::string_view given) {
  const Setting* meant = nullptr;
  size_t fewest = kMaxComparedName + 1;
  for (const std::string_view beginning : kOwnBeginnings) {
    if (!StartsWith(given, beginning)) continue;
    for (const Setting& setting : kSettings) {
      if (!StartsWith(setting.name, beginning) || !IsNearName(given, setting.name)) continue;
      const size_t distance = EditDistance(given, setting.name);
      if (distance < fewest) {
        fewest = distance;
        meant = &setting;
      }
    }
  }
  return meant;
}

struct NameWriter {
  TextWriter* out;
  size_t count;
};

void WriteNameForFullLibrary(const char* name, size_t name_length, const char* value,
                             void* context) {
  NameWriter& names = *static_cast<NameWriter*>(context);
  const Setting* const setting = FindSetting({name, name_length});
  if (setting == nullptr || !Has(*setting, kFullLibrary)) return;
  if (std::string_view(value) == setting->default_text) return;
  names.out->Text(names.count == 0 ? "" : ", ").Text(setting->name);
  ++names.count;
}

// What statistics say of the settings.
void NoteGiven(const Setting& setting, const char* value, Settings* settings) {
  if (std::string_view(value) == setting.default_text) return;
  constexpr std::string_view kMore = " ...";
  const std::string_view before = settings->given;
  if (before.ends_with(kMore)) return;
  char* const end = settings->given + before.size();
  TextWriter out(end, sizeof(settings->given) - before.size() - kMore.size());
  if (!before.empty()) out.Text(" ");
  out.Text(setting.name).Text("=");
  WriteShortened(value, &out);
  if (out.truncated()) memcpy(end, kMore.data(), kMore.size() + 1);
}

void ReadFound(const Setting& setting, const char* value, Settings* settings,
               TextWriter* complaint) {
  if (Store(setting, value, settings)) return;
  complaint->Text("tcmalloc: ").Text(setting.name).Text("=");
  WriteShortened(value, complaint);
  complaint->Text(" is ignored: expected ");
  WriteRange(setting, complaint);
  complaint->Text("; using ").Text(DefaultText(setting)).Text("\n");
}

// Where it may have been meant to be one.
void ComplainOfUnknown(std::string_view given, TextWriter* complaint) {
  const Setting* const meant = MeantSetting(given);
  if ((meant == nullptr && !StartsWith(given, kPrefix)) || IsIgnored(given)) return;
  complaint->Text("tcmalloc: ");
  WriteShortened(given, complaint);
  complaint->Text(" is ignored: there is no such setting");
  if (meant != nullptr) complaint->Text("; did you mean ").Text(meant->name).Text("?");
  complaint->Text("\n");
}

struct Reader {
  bool raised_privileges;
  Settings* settings;
};

void VisitVariable(const char* name, size_t name_length, const char* value, void* context) {
  const Reader& reader = *static_cast<Reader*>(context);
  const Setting* const setting = FindSetting({name, name_length});
  if (reader.raised_privileges && setting != nullptr && Has(*setting, kNamesFiles)) return;
  char buffer[512];
  TextWriter complaint(buffer, sizeof(buffer));
  if (setting != nullptr) {
    ReadFound(*setting, value, reader.settings, &complaint);
  } else {
    ComplainOfUnknown({name, name_length}, &complaint);
  }
  if (!complaint.text().empty()) {
    WriteToStderr(complaint.text());
  } else if (setting != nullptr) {
    NoteGiven(*setting, value, reader.settings);
  }
}

}  // namespace

void ReadSetting(const char* name, size_t name_length, const char* value, Settings* settings,
                 TextWriter* complaint) {
  const std::string_view given(name, name_length);
  if (const Setting* const setting = FindSetting(given)) {
    ReadFound(*setting, value, settings, complaint);
  } else {
    ComplainOfUnknown(given, complaint);
  }
}

void UseSmallPreset(Settings* settings) {
  settings->small = true;
  settings->max_total_thread_cache_bytes = size_t{1} << 20;
  settings->min_thread_cache_bytes = size_t{16} << 10;
  settings->inheritance_bytes = size_t{64} << 10;
  settings->hugepages = false;
  settings->release_rate = 10;
}

void ReadSettings(bool raised_privileges, Settings* settings) {
  // What the others are without being set hangs on this one.
  bool small = false;
  ForEachEnvironmentVariable(&LookForSmall, &small);
  if (small) UseSmallPreset(settings);
  Reader reader{raised_privileges, settings};
  ForEachEnvironmentVariable(&VisitVariable, &reader);
}

void ReportSettingsForFullLibrary() {
  constexpr std::string_view kBegin = "tcmalloc: ";
  constexpr std::string_view kOne =
      " is ignored: this is libtcmalloc_minimal; preload or link "
      "libtcmalloc, which has what it is for\n";
  constexpr std::string_view kSeveral =
      " are ignored: this is libtcmalloc_minimal; preload or link "
      "libtcmalloc, which has what they are for\n";
  char buffer[kBegin.size() + kFullLibraryNamesBytes + kSeveral.size()];
  TextWriter line(buffer, sizeof(buffer));
  line.Text(kBegin);
  NameWriter names{&line, 0};
  ForEachEnvironmentVariable(&WriteNameForFullLibrary, &names);
  if (names.count > 0) WriteToStderr(line.Text(names.count == 1 ? kOne : kSeveral).text());
}

bool DescribeSetting(size_t i, SettingDescription* description) {
  if (i >= std::size(kSettings)) return false;
  const Setting& setting = kSettings[i];
  *description = {setting.name, DefaultText(setting), Has(setting, kNamesFiles),
                  Has(setting, kFullLibrary)};
  return true;
}

void WriteSettingRange(size_t i, TextWriter* out) { WriteRange(kSettings[i], out); }

const char* IgnoredSettings(size_t group) {
  return group < std::size(kIgnored) ? kIgnored[group] : nullptr;
}

}  // namespace tcmalloc
