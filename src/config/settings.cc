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

#include "base/units.h"
#include "config/setting.h"
#include "config/settings_table.h"

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
  const Setting* const found = std::ranges::lower_bound(kSettings, name, &Precedes, &NameOf);
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

}  // namespace tcmalloc
