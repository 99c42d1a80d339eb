// SPDX-License-Identifier: BSD-3-Clause
// The table of settings without documentation, and the functions that store values. Reads nothing
// from the OS.
#include "config/settings.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/text.h"
#include "base/units.h"
#include "config/environment_hints.h"
#include "config/setting.h"
#include "config/settings_table.h"
#include "os/log.h"
#include "os/process.h"

namespace tcmalloc {
namespace {

// The rows without their documentation.
constexpr auto kSettings = []() consteval {
  return []<size_t... kRow>(std::index_sequence<kRow...>) consteval {
    return std::array{kSettingRows[kRow].setting...};
  }(std::make_index_sequence<std::size(kSettingRows)>());
}();

// The comparison does not use string_view's operator, which clang would put into the library as an
// exported function.
constexpr bool Precedes(std::string_view a, std::string_view b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return a.size() < b.size();
}

constexpr std::string_view NameOf(const Setting& setting) { return setting.name.view(); }

// FindSetting is a binary search.
static_assert(std::ranges::is_sorted(kSettings, &Precedes, &NameOf));

constexpr std::span<const SettingWord> WordsOf(const Setting& setting) {
  if (std::holds_alternative<BackgroundMode Settings::*>(setting.field)) return kBackgroundWords;
  if (std::holds_alternative<HeapCheckMode Settings::*>(setting.field)) return kHeapCheckWords;
  return kStackTraceWords;
}

constexpr std::optional<SettingValue> ParseWord(std::span<const SettingWord> words,
                                                std::string_view text) {
  for (const SettingWord& word : words) {
    if (EqualsIgnoringCase(text, word.word.view())) {
      return SettingValue{static_cast<double>(word.value)};
    }
  }
  return std::nullopt;
}

constexpr std::optional<SettingValue> ParseValue(const Setting& setting, std::string_view text) {
  if (setting.type == SettingType::kWord) return ParseWord(WordsOf(setting), text);
  return ParseSettingValue(setting.type, text, setting.range);
}

// The constructor of Settings relies on it.
static_assert(std::ranges::all_of(kSettings, [](const Setting& setting) {
  const std::string_view text = setting.default_text.view();
  return setting.type == SettingType::kText || ParseValue(setting, text).has_value();
}));

// How a setting's value is stored.
template <typename Value>
constexpr bool Holds(SettingType type) {
  if (std::is_same_v<Value, bool>) {
    return type == SettingType::kBoolean || type == SettingType::kPresence;
  }
  if (std::is_same_v<Value, double>) return type == SettingType::kNumber;
  if (std::is_same_v<Value, BytesOrPercent>) return type == SettingType::kBytesOrPercent;
  if (std::is_enum_v<Value>) return type == SettingType::kWord;
  if (std::is_array_v<Value>) return type == SettingType::kText;
  return type == SettingType::kInteger || type == SettingType::kBytes ||
         type == SettingType::kMebibytes;
}
static_assert(std::ranges::all_of(kSettings, [](const Setting& setting) {
  return std::visit([&]<typename Value>(Value Settings::*) { return Holds<Value>(setting.type); },
                    setting.field);
}));

// `value`, clamped to the range of Integer.
template <typename Integer>
Integer Clamp(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<Integer>(value);
}

bool CopyText(std::string_view text, char* buffer) {
  if (text.size() >= kSettingTextBytes) return false;
  memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  return true;
}

void StoreNumber(const Setting& setting, const SettingValue& value, Settings* settings) {
  double number = value.number;
  if (setting.type == SettingType::kMebibytes) number *= 1 << 20;
  if (setting.Has(kZeroIsUnlimited) && number <= 0) number = std::numeric_limits<double>::max();
  std::visit(
      [&]<typename Value>(Value Settings::* member) {
        Value& to = settings->*member;
        if constexpr (std::is_same_v<Value, BytesOrPercent>) {
          to.bytes = value.is_percent ? SIZE_MAX : Clamp<size_t>(number);
          to.percent = value.is_percent ? static_cast<uint32_t>(number) : 0;
        } else if constexpr (std::is_integral_v<Value>) {
          to = Clamp<Value>(number);
        } else if constexpr (!std::is_array_v<Value>) {
          to = static_cast<Value>(number);
        }
      },
      setting.field);
}

}  // namespace

std::span<const Setting> AllSettings() { return kSettings; }

const Setting* FindSetting(std::string_view name) {
  // Without optimisation, std::ranges::lower_bound would be an exported object.
  const Setting* const found =
      std::lower_bound(kSettings.begin(), kSettings.end(), name,
                       [](const Setting& setting, std::string_view wanted) {
                         return Precedes(NameOf(setting), wanted);
                       });
  return found != kSettings.end() && NameOf(*found) == name ? found : nullptr;
}

std::optional<SettingValue> ParseSetting(const Setting& setting, std::string_view text) {
  return ParseValue(setting, text);
}

bool StoreSetting(const Setting& setting, std::string_view text, Settings* settings) {
  if (const auto* const field = std::get_if<char(Settings::*)[kSettingTextBytes]>(&setting.field)) {
    return CopyText(text, settings->**field);
  }
  const std::optional<SettingValue> value = ParseValue(setting, text);
  if (value) StoreNumber(setting, *value, settings);
  return value.has_value();
}

Settings::Settings() {
  for (const Setting& setting : kSettings) StoreSetting(setting, setting.default_text.view(), this);
}

void WriteSettingRange(const Setting& setting, TextWriter* out) {
  switch (setting.type) {
    case SettingType::kBoolean:
      out->Text("0 or 1, false or true, no or yes, off or on");
      return;
    case SettingType::kPresence:
      out->Text("any text");
      return;
    case SettingType::kText:
      out->Text("text of at most ").Number(kSettingTextBytes - 1).Text(" bytes");
      return;
    case SettingType::kWord: {
      std::string_view before = "one of ";
      for (const SettingWord& word : WordsOf(setting)) {
        if (word.word.view().empty()) continue;
        out->Text(before).Text(word.word.view());
        before = ", ";
      }
      return;
    }
    case SettingType::kInteger:
      out->Text("integer");
      break;
    case SettingType::kNumber:
      out->Text("number");
      break;
    case SettingType::kBytes:
    case SettingType::kBytesOrPercent:
      out->Text("bytes (suffixes K, M, G, T)");
      break;
    case SettingType::kMebibytes:
      out->Text("MiB (or with a suffix K, M, G, T)");
      break;
  }
  const double min = setting.range.min;
  out->Text(min < 0 ? " from -" : " from ");
  out->Number(static_cast<uint64_t>(min < 0 ? -min : min));
  out->Text(" to ").Number(static_cast<uint64_t>(setting.range.max));
  if (setting.type == SettingType::kBytesOrPercent) out->Text(", or 1% to 100%");
}

// The presets of TCMALLOC_SMALL.
constexpr size_t kSmallRetentionBytes = 2_MiB;
constexpr size_t kSmallMinPerCacheBytes = 16_KiB;
static_assert(kSmallMinPerCacheBytes <= kMinPerCacheBytes);
constexpr double kSmallReleaseRate = 10;

void UseSmallPreset(Settings* settings) {
  settings->small = true;
  settings->retention_bytes = kSmallRetentionBytes;
  settings->min_thread_cache_bytes = kSmallMinPerCacheBytes;
  settings->hugepages = false;
  settings->release_rate = kSmallReleaseRate;
}

// Reads the settings from the environment, and reports mistakes in it.
namespace {

// Room for the names of all settings for the full library, with a comma and a space after each.
constexpr size_t kFullLibraryNamesBytes = []() consteval {
  size_t bytes = 0;
  for (const SettingRow& row : kSettingRows) {
    if (row.setting.Has(kFullLibrary)) bytes += row.setting.name.view().size() + 2;
  }
  return bytes;
}();

constexpr std::string_view kPrefix = "TCMALLOC_";

void LookForSmall(const char* name, size_t name_length, const char* value, void* context) {
  if (std::string_view(name, name_length) != "TCMALLOC_SMALL") return;
  bool& small = *static_cast<bool*>(context);
  small = ParseBoolean(value).value_or(small);
}

// True if a name has the beginning of one of this library's. PMI_RANK, SLURM_PROCID and OMPI_HOME
// do not: they belong to other software, which has more names like them. Most variables of an
// environment begin otherwise, and cost nothing.
bool BeginsLikeOurs(std::string_view name) {
  return StartsWith(name, "TCM") || StartsWith(name, "HEA") || StartsWith(name, "MAL") ||
         StartsWith(name, "PPR");
}

// Returns the setting whose name is the nearest to that of an unknown variable; null if none is
// near.
const Setting* NearestSetting(std::string_view given) {
  if (!BeginsLikeOurs(given)) return nullptr;
  const Setting* nearest = nullptr;
  size_t least = kNearDistance + 1;
  for (const Setting& setting : AllSettings()) {
    const size_t distance = EditDistance(given, setting.name.view());
    if (distance < least) {
      least = distance;
      nearest = &setting;
    }
  }
  return nearest;
}

struct NameWriter {
  TextWriter* out;
  size_t count;
};

void WriteNameForFullLibrary(const char* name, size_t name_length, const char* value,
                             void* context) {
  NameWriter& names = *static_cast<NameWriter*>(context);
  const Setting* const setting = FindSetting({name, name_length});
  if (setting == nullptr || !setting->Has(kFullLibrary)) return;
  if (std::string_view(value) == setting->default_text.view()) return;
  names.out->Text(names.count == 0 ? "" : ", ").Text(setting->name.view());
  ++names.count;
}

// Appends NAME=VALUE to Settings::given.
void NoteGiven(const Setting& setting, const char* value, Settings* settings) {
  if (std::string_view(value) == setting.default_text.view()) return;
  constexpr std::string_view kMore = " ...";
  const std::string_view before = settings->given;
  if (before.ends_with(kMore)) return;
  char* const end = settings->given + before.size();
  TextWriter out(end, sizeof(settings->given) - before.size() - kMore.size());
  if (!before.empty()) out.Text(" ");
  out.Text(setting.name.view()).Text("=");
  WriteShortened(value, &out);
  if (out.truncated()) memcpy(end, kMore.data(), kMore.size() + 1);
}

void ReadFound(const Setting& setting, const char* value, Settings* settings,
               TextWriter* complaint) {
  if (StoreSetting(setting, value, settings)) {
    if (setting.Has(kLinesWhereSet)) settings->large_report_lines = true;
    return;
  }
  complaint->Text("tcmalloc: ").Text(setting.name.view()).Text("=");
  WriteShortened(value, complaint);
  complaint->Text(" is ignored: expected ");
  WriteSettingRange(setting, complaint);
  complaint->Text("; using ").Text(ShownDefault(setting)).Text("\n");
}

// Describes a variable that is no setting, unless it belongs to other software.
void ComplainOfUnknown(std::string_view given, TextWriter* complaint) {
  const Setting* const near = NearestSetting(given);
  if ((near == nullptr && !StartsWith(given, kPrefix)) || IsIgnoredSetting(given)) return;
  const std::string_view meant = near != nullptr ? near->name.view() : SettingCalled(given);
  complaint->Text("tcmalloc: ");
  WriteShortened(given, complaint);
  complaint->Text(" is ignored: there is no such setting");
  if (!meant.empty()) complaint->Text("; did you mean ").Text(meant).Text("?");
  complaint->Text("\n");
}

void VisitVariable(const char* name, size_t name_length, const char* value, void* context) {
  Settings* const settings = static_cast<Settings*>(context);
  const Setting* const setting = FindSetting({name, name_length});
  char buffer[512];
  TextWriter complaint(buffer, sizeof(buffer));
  ReadSetting(name, name_length, value, settings, &complaint);
  if (!complaint.text().empty()) {
    WriteToStderr(complaint.text());
  } else if (setting != nullptr) {
    NoteGiven(*setting, value, settings);
  }
}

bool IsSetting(std::string_view name) { return FindSetting(name) != nullptr; }

// True if ReadSetting complains of the variable.
bool IsComplainedOf(std::string_view name) {
  return StartsWith(name, kPrefix) && !IsSetting(name) && !IsIgnoredSetting(name);
}

void PrintHint(const char* name, size_t name_length, const char* value, void*) {
  const std::string_view given(name, name_length);
  if (IsComplainedOf(given)) return;
  char buffer[512];
  TextWriter hint(buffer, sizeof(buffer));
  WriteHint(given, value, &IsSetting, &hint);
  if (hint.text().empty()) return;
  char line_buffer[sizeof(buffer) + 32];
  TextWriter line(line_buffer, sizeof(line_buffer));
  WriteToStderr(line.Text("tcmalloc: hint: ").Text(hint.text()).Text("\n").text());
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

void ReadSettings(Settings* settings) {
  // TCMALLOC_SMALL is read first, since it changes the defaults of other settings.
  bool small = false;
  ForEachEnvironmentVariable(&LookForSmall, &small);
  if (small) UseSmallPreset(settings);
  ForEachEnvironmentVariable(&VisitVariable, settings);
  if (settings->hints) ForEachEnvironmentVariable(&PrintHint, nullptr);
}

void ReportSettingsForFullLibrary() {
  constexpr std::string_view kBegin = "tcmalloc: ";
  constexpr std::string_view kOne =
      " is ignored: this is libtcmalloc_minimal; preload or link "
      "libtcmalloc, which uses it\n";
  constexpr std::string_view kSeveral =
      " are ignored: this is libtcmalloc_minimal; preload or link "
      "libtcmalloc, which uses them\n";
  char buffer[kBegin.size() + kFullLibraryNamesBytes + kSeveral.size()];
  TextWriter line(buffer, sizeof(buffer));
  line.Text(kBegin);
  NameWriter names{&line, 0};
  ForEachEnvironmentVariable(&WriteNameForFullLibrary, &names);
  if (names.count > 0) WriteToStderr(line.Text(names.count == 1 ? kOne : kSeveral).text());
}

}  // namespace tcmalloc
