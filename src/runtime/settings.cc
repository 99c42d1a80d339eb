// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/settings.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "os/environment.h"
#include "os/log.h"
#include "page/release_pace.h"

namespace tcmalloc {
namespace {

enum class Type : uint8_t { kBool, kInteger, kDouble };

struct Setting {
  const char* name;
  Type type;
  const char* default_text;
  double min;
  double max;
  void (*store)(Settings* settings, double value);
  const char* doc;
};

// Far beyond what any machine has, and exact as a double.
constexpr double kMaxCacheBytes = double{1ull << 50};

// What no address space holds is as much as there are addresses.
size_t AsBytes(double value) {
  return value < static_cast<double>(SIZE_MAX) ? static_cast<size_t>(value) : SIZE_MAX;
}

constexpr Setting kSettings[] = {
    {"MALLOCSTATS", Type::kInteger, "0", 0, 2,
     [](Settings* s, double v) { s->malloc_stats = static_cast<int64_t>(v); },
     "Print statistics of the heap to stderr when the process exits: 1 the totals, 2 also a line "
     "per size class."},
    {"TCMALLOC_CHECK", Type::kBool, "false", 0, 1, [](Settings* s, double v) { s->check = v != 0; },
     "Give no thread a cache: every allocation and every free goes to the central free lists and "
     "is checked there at once. "
     "Slow; for finding double frees and frees of bad pointers where they happen."},
    {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", Type::kInteger, "33554432", 0, kMaxCacheBytes,
     [](Settings* s, double v) { s->max_total_thread_cache_bytes = AsBytes(v); },
     "What the caches of all threads together may hold, free objects and the arrays of pointers to "
     "them. Each thread may have 64 KiB whatever this says; beyond that threads that are busy take "
     "from those that are not. Raise it when many threads allocate and free more than that at a "
     "time."},
    {"TCMALLOC_MEMBARRIER", Type::kBool, "true", 0, 1,
     [](Settings* s, double v) { s->membarrier = v != 0; },
     "Call membarrier(2), to empty the caches of threads that sleep. To be set to false where a "
     "sandbox ends processes for system calls that it does not know; threads are then asked, and "
     "flush when they next need memory."},
    {"TCMALLOC_RELEASE_RATE", Type::kDouble, "1.0", 0, ReleasePace::kMaxRate,
     [](Settings* s, double v) { s->release_rate = v; },
     "How eagerly free memory goes back to the system while the program frees: 0 never, reasonable "
     "values up to 10."},
};

// Variables of the library whose binary interface this one keeps that have no effect here.
constexpr const char* kIgnored[] = {
    "TCMALLOC_SAMPLE_PARAMETER",
    "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD",
    "TCMALLOC_AGGRESSIVE_DECOMMIT",
    "TCMALLOC_HEAP_LIMIT_MB",
    "TCMALLOC_DISABLE_MEMORY_RELEASE",
    "TCMALLOC_OVERRIDE_PAGESIZE",
    "TCMALLOC_TRANSFER_NUM_OBJ",
    "TCMALLOC_ENABLE_SIZED_DELETE",
    "TCMALLOC_SKIP_MMAP",
    "TCMALLOC_SKIP_SBRK",
    "TCMALLOC_DEVMEM_START",
    "TCMALLOC_DEVMEM_LIMIT",
    "TCMALLOC_DEVMEM_DEVICE",
    "TCMALLOC_MEMFS_MALLOC_PATH",
    "TCMALLOC_MEMFS_LIMIT_MB",
    "TCMALLOC_MEMFS_ABORT_ON_FAIL",
    "TCMALLOC_MEMFS_IGNORE_MMAP_FAIL",
    "TCMALLOC_MEMFS_MAP_PRIVATE",
    "TCMALLOC_MEMFS_DISABLE_FALLBACK",
    "TCMALLOC_STACKTRACE_METHOD",
    "TCMALLOC_STACKTRACE_METHOD_VERBOSE",
    "TCMALLOC_DISABLE_REPLACEMENT",
    "TCMALLOC_TRACE",
    "TCMALLOC_TRACE_FILE",
    "TCMALLOC_PAGE_FENCE",
    "TCMALLOC_PAGE_FENCE_NEVER_RECLAIM",
    "TCMALLOC_PAGE_FENCE_READABLE",
    "TCMALLOC_RECLAIM_MEMORY",
    "TCMALLOC_MAX_FREE_QUEUE_SIZE",
    "TCMALLOC_SYMBOLIZE_STACKTRACE",
};

// Where the paragraphs of the documentation are broken.
constexpr size_t kDocumentationColumns = 100;

constexpr std::string_view kPrefix = "TCMALLOC_";

// Writes the beginning of `text`, enough of it to recognise, on one line: what is no printable
// ASCII character becomes a question mark. (substr would pull in the C++ runtime's range error.)
void WriteShortened(std::string_view text, TextWriter* out) {
  for (const char& c : std::string_view(text.data(), std::min<size_t>(text.size(), 100))) {
    out->Text(c >= ' ' && c <= '~' ? std::string_view(&c, 1) : "?");
  }
}

bool HasPrefix(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && memcmp(text.data(), prefix.data(), prefix.size()) == 0;
}

bool EqualIgnoringCase(const char* a, const char* b) {
  for (; *a != '\0' && *b != '\0'; ++a, ++b) {
    const char lower = *a >= 'A' && *a <= 'Z' ? static_cast<char>(*a - 'A' + 'a') : *a;
    if (lower != *b) return false;
  }
  return *a == *b;
}

bool ParseBool(const char* text, double* value) {
  for (const char* yes : {"1", "true", "t", "yes", "y", "on"}) {
    if (EqualIgnoringCase(text, yes)) return *value = 1, true;
  }
  for (const char* no : {"0", "false", "f", "no", "n", "off", ""}) {
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

bool Parse(const Setting& setting, const char* text, double* value) {
  const bool parsed = setting.type == Type::kBool
                          ? ParseBool(text, value)
                          : ParseDecimal(text, setting.type == Type::kDouble, value);
  return parsed && *value >= setting.min && *value <= setting.max;
}

const char* TypeName(Type type) {
  switch (type) {
    case Type::kBool:
      return "boolean";
    case Type::kInteger:
      return "integer";
    case Type::kDouble:
      return "number";
  }
  return "";
}

void WriteRange(const Setting& setting, TextWriter* out) {
  if (setting.type == Type::kBool) {
    out->Text("0 or 1, false or true, no or yes, off or on");
    return;
  }
  out->Text(TypeName(setting.type)).Text(" from ").Number(static_cast<uint64_t>(setting.min));
  out->Text(" to ").Number(static_cast<uint64_t>(setting.max));
}

void VisitVariable(const char* name, size_t name_length, const char* value, void* context) {
  char buffer[512];
  TextWriter complaint(buffer, sizeof(buffer));
  ReadSetting(name, name_length, value, static_cast<Settings*>(context), &complaint);
  if (!complaint.text().empty()) WriteToStderr(complaint.text());
}

}  // namespace

void ReadSetting(const char* name, size_t name_length, const char* value, Settings* settings,
                 TextWriter* complaint) {
  const std::string_view given(name, name_length);
  for (const Setting& setting : kSettings) {
    if (given != setting.name) continue;
    double parsed = 0;
    if (Parse(setting, value, &parsed)) {
      setting.store(settings, parsed);
      return;
    }
    complaint->Text("tcmalloc: ").Text(given).Text("=");
    WriteShortened(value, complaint);
    complaint->Text(" is ignored: expected ");
    WriteRange(setting, complaint);
    complaint->Text("; using ").Text(setting.default_text).Text("\n");
    return;
  }
  if (!HasPrefix(given, kPrefix)) return;
  for (const char* ignored : kIgnored) {
    if (given == ignored) return;
  }
  complaint->Text("tcmalloc: ");
  WriteShortened(given, complaint);
  complaint->Text(" is ignored: there is no such setting\n");
}

void ReadSettings(Settings* settings) { ForEachEnvironmentVariable(&VisitVariable, settings); }

void WriteSettingsDocumentation(TextWriter* out) {
  out->Text(
      "# Settings\n\nEnvironment variables, read once, when the process first allocates.\n\n");
  out->Text("| variable | default | values | meaning |\n|---|---|---|---|\n");
  for (const Setting& setting : kSettings) {
    out->Text("| `").Text(setting.name).Text("` | ").Text(setting.default_text).Text(" | ");
    WriteRange(setting, out);
    out->Text(" | ").Text(setting.doc).Text(" |\n");
  }
  out->Text(
      "\nA value that the column \"values\" does not allow, and a variable `TCMALLOC_...` that "
      "does not\n"
      "exist, are reported in one line each on stderr and ignored.\n\n"
      "These variables of other releases are accepted and have no effect:\n");
  size_t column = 0;
  for (const char* const& ignored : kIgnored) {
    const bool last = &ignored == std::end(kIgnored) - 1;
    const size_t width = strlen(ignored) + 3;  // two quotes and a comma or full stop
    if (column > 0) {
      const bool fits = column + 1 + width <= kDocumentationColumns;
      out->Text(fits ? " " : "\n");
      column = fits ? column + 1 : 0;
    }
    out->Text("`").Text(ignored).Text(last ? "`.\n" : "`,");
    column += width;
  }
}

}  // namespace tcmalloc
