// SPDX-License-Identifier: BSD-3-Clause
#include "config/environment_hints.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "config/setting.h"
#include "config/settings_table.h"

namespace tcmalloc {

size_t EditDistance(std::string_view a, std::string_view b) {
  if (a.size() > kMaxComparedName || b.size() > kMaxComparedName) return kMaxComparedName + 1;
  // Two rows of the table of distances between the first i characters of `a` and the first j of
  // `b`.
  using Row = std::array<uint8_t, kMaxComparedName + 1>;
  Row rows[2];
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<uint8_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    Row& now = rows[i % 2];
    const Row& before = rows[(i - 1) % 2];
    now[0] = static_cast<uint8_t>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = static_cast<uint8_t>(std::min({replaced, before[j] + 1, now[j - 1] + 1}));
    }
  }
  return rows[a.size() % 2][b.size()];
}

namespace {

constexpr std::string_view kOwnPrefix = "TCMALLOC_";
// The settings in bytes that are not useful with so few.
constexpr std::string_view kSizes =
    "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES,TCMALLOC_RETENTION,TCMALLOC_SOFT_LIMIT";

// The tables have no pointers, for the reason that Setting has none.
struct OthersVariable {
  SettingText<23> beginning;  // of the variable's name
  SettingText<14> allocator;
  SettingText<8> guide;  // the end of the name of its page, after docs/migrating-from-
};
consteval OthersVariable Of(const char* beginning, const char* allocator, const char* guide) {
  return {SettingText<23>(beginning), SettingText<14>(allocator), SettingText<8>(guide)};
}
constexpr OthersVariable kOthersVariables[] = {
    Of("MALLOC_CONF", "jemalloc", "jemalloc"),
    Of("_RJEM_MALLOC_CONF", "jemalloc", "jemalloc"),
    Of("MIMALLOC_", "mimalloc", "mimalloc"),
    Of("MALLOC_ARENA_", "glibc's malloc", "glibc"),
    Of("MALLOC_MMAP_", "glibc's malloc", "glibc"),
    Of("MALLOC_TRIM_THRESHOLD_", "glibc's malloc", "glibc"),
    Of("MALLOC_TOP_PAD_", "glibc's malloc", "glibc"),
    Of("MALLOC_PERTURB_", "glibc's malloc", "glibc"),
    Of("MALLOC_CHECK_", "glibc's malloc", "glibc"),
};

// Names that no setting has, and the setting that may be meant.
struct OtherName {
  SettingText<15> name;
  SettingText<37> setting;
};
consteval OtherName Called(const char* name, const char* setting) {
  return {SettingText<15>(name), SettingText<37>(setting)};
}
constexpr OtherName kOtherNames[] = {
    Called("HARD_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"),
    Called("HEAP_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"),
    Called("MEMORY_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"),
    Called("SAMPLE_INTERVAL", "TCMALLOC_SAMPLE_PARAMETER"),
    Called("SAMPLING", "TCMALLOC_SAMPLE_PARAMETER"),
};

bool Contains(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end()) != text.end();
}

// The pack expands one comparison per group. A loop would put the whole table, with its reasons,
// into the library.
template <size_t... kGroup>
bool IsIgnored(std::string_view name, std::index_sequence<kGroup...>) {
  return (ListHas(kIgnoredSettings[kGroup].names, name) || ...);
}

// Writes the hint about a setting without its prefix, if `name` is one.
void WriteHintAboutPrefix(std::string_view name, bool (*is_setting)(std::string_view name),
                          TextWriter* out) {
  char buffer[64];
  TextWriter with_prefix(buffer, sizeof(buffer));
  with_prefix.Text(kOwnPrefix).Text(name);
  if (with_prefix.truncated() || !is_setting(with_prefix.text())) return;
  WriteShortened(name, out);
  out->Text(" is not a setting of the allocator: ").Text(with_prefix.text()).Text(" is");
}

void WriteHintAboutSize(std::string_view name, std::string_view value, TextWriter* out) {
  // A smaller value was probably meant in another unit.
  constexpr uint64_t kFewBytes = uint64_t{64} << 10;
  uint64_t bytes = 0;
  if (!IsDigits(value) || !TakeNumber(&value, &bytes) || bytes == 0 || bytes >= kFewBytes) return;
  out->Text(name).Text("=").Number(bytes).Text(" is ").Number(bytes);
  out->Text(bytes == 1 ? " byte: " : " bytes: ");
  out->Number(bytes).Text("M would be ").Number(bytes).Text(" MiB");
}

}  // namespace

// substr would link the function of the C++ runtime that throws a range error.
void WriteShortened(std::string_view text, TextWriter* out) {
  for (const char& c : std::string_view(text.data(), std::min<size_t>(text.size(), 100))) {
    out->Text(c >= ' ' && c <= '~' ? std::string_view(&c, 1) : "?");
  }
}

bool IsIgnoredSetting(std::string_view name) {
  return IsIgnored(name, std::make_index_sequence<std::size(kIgnoredSettings)>());
}

std::string_view SettingCalled(std::string_view name) {
  if (StartsWith(name, kOwnPrefix)) name.remove_prefix(kOwnPrefix.size());
  for (const OtherName& other : kOtherNames) {
    if (name == other.name.view()) return other.setting.view();
  }
  return {};
}

void WriteHint(std::string_view name, std::string_view value,
               bool (*is_setting)(std::string_view name), TextWriter* out) {
  if (is_setting(name)) {
    if (ListHas(kSizes, name)) WriteHintAboutSize(name, value, out);
    return;
  }
  for (const OthersVariable& other : kOthersVariables) {
    if (!StartsWith(name, other.beginning.view())) continue;
    WriteShortened(name, out);
    out->Text(" is for ").Text(other.allocator.view());
    out->Text(" and has no effect here: see docs/migrating-from-");
    out->Text(other.guide.view()).Text(".md");
    return;
  }
  if (name == "GLIBC_TUNABLES") {
    if (!Contains(value, "glibc.malloc.")) return;
    out->Text(
        "GLIBC_TUNABLES: glibc.malloc.* has no effect here: see docs/migrating-from-glibc.md");
  } else if (IsIgnoredSetting(name)) {
    out->Text(name).Text(" has no effect here: see docs/settings.md");
  } else if (const std::string_view setting = SettingCalled(name); !setting.empty()) {
    out->Text(name).Text(" is not a setting of the allocator: ").Text(setting).Text(" is");
  } else {
    WriteHintAboutPrefix(name, is_setting, out);
  }
}

}  // namespace tcmalloc
