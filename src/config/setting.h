// SPDX-License-Identifier: BSD-3-Clause
// Setting: an environment variable as the libraries know it. SettingRow: a Setting with its
// documentation, which is not in the libraries. And how the text of a value is parsed.
//
// A Setting has no pointers: a read-only table of Settings lies in pages of the file, which
// processes share, and the dynamic linker need not relocate it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "config/settings.h"

namespace tcmalloc {

// Parses the text of a setting, by type and range. Pure functions, which the compiler evaluates for
// the defaults. They do not depend on the locale, which may not be set up yet. Cost: a nanosecond
// per character.
enum class SettingType : uint8_t {
  kBoolean,
  kInteger,
  kNumber,          // may have a decimal point
  kBytes,           // with or without a suffix (UnitOfSuffix)
  kBytesOrPercent,  // as kBytes, or 1% to 100%
  kMebibytes,       // whole MiB; with a suffix, bytes
  kText,
  kPresence,  // whether the text is not empty
  kWord,      // one of a list of words
};

struct SettingRange {
  double min = 0;  // negative only for kInteger and kBytes
  double max = 0;
};

// A number of any type. A double represents all numbers in the ranges exactly.
struct SettingValue {
  double number = 0;
  bool is_percent = false;
};

// Requires: `lower` has no upper-case letters.
constexpr bool EqualsIgnoringCase(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != lower[i]) return false;
  }
  return true;
}

// Whether `text` is one of `words`, which commas separate.
constexpr bool IsOneOfIgnoringCase(std::string_view text, std::string_view words) {
  while (!words.empty()) {
    if (EqualsIgnoringCase(text, TakeField(&words, ','))) return true;
  }
  return false;
}

// Empty text is true, as in gperftools.
constexpr std::optional<bool> ParseBoolean(std::string_view text) {
  if (text.empty() || IsOneOfIgnoringCase(text, "1,true,t,yes,y,on")) return true;
  if (IsOneOfIgnoringCase(text, "0,false,f,no,n,off")) return false;
  return std::nullopt;
}

// Parses at least one decimal digit, and with `point_allowed` also one decimal point. Nullopt for
// any other text.
constexpr std::optional<double> ParseDecimal(std::string_view text, bool point_allowed) {
  double value = 0;
  double unit = 1;
  bool any_digit = false;
  bool after_point = false;
  for (const char c : text) {
    if (c == '.' && point_allowed && !after_point) {
      after_point = true;
    } else if (c >= '0' && c <= '9') {
      any_digit = true;
      const double digit = c - '0';
      if (after_point) {
        unit /= 10;
        value += digit * unit;
      } else {
        value = value * 10 + digit;
      }
    } else {
      return std::nullopt;
    }
  }
  if (!any_digit) return std::nullopt;
  return value;
}

// Returns the factor of a suffix. K, M, G and T are powers of 1024, in upper or lower case, alone
// or as in KB and KiB. 0 for any other text.
constexpr double UnitOfSuffix(std::string_view suffix) {
  if (suffix.empty()) return 1;
  double unit = 1;
  for (const char letter : std::string_view("kmgt")) {
    unit *= 1024;
    if ((suffix[0] | 0x20) != letter) continue;
    const std::string_view rest(suffix.data() + 1, suffix.size() - 1);
    return rest.empty() || IsOneOfIgnoringCase(rest, "b,ib") ? unit : 0;
  }
  return 0;
}

// A whole number, with or without a suffix.
constexpr std::optional<double> ParseBytes(std::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const std::optional<double> number = ParseDecimal({text.data(), digits}, false);
  const double unit = UnitOfSuffix({text.data() + digits, text.size() - digits});
  if (!number || unit == 0) return std::nullopt;
  return *number * unit;
}

// A whole number of MiB; or bytes with a suffix that are a whole number of MiB.
constexpr std::optional<double> ParseMebibytes(std::string_view text) {
  if (const std::optional<double> mebibytes = ParseDecimal(text, false)) return mebibytes;
  const std::optional<double> bytes = ParseBytes(text);
  // From 2^63 on the conversion below would be undefined, and the range of every setting ends below
  // that.
  if (!bytes || *bytes >= 0x1p63) return std::nullopt;
  const uint64_t whole = static_cast<uint64_t>(*bytes);
  if (whole % (1 << 20) != 0) return std::nullopt;
  return static_cast<double>(whole >> 20);
}

// From 1% to 100%.
constexpr std::optional<double> ParsePercentage(std::string_view text) {
  if (text.empty() || text.back() != '%') return std::nullopt;
  const std::optional<double> percent = ParseDecimal({text.data(), text.size() - 1}, false);
  if (!percent || *percent < 1 || *percent > 100) return std::nullopt;
  return percent;
}

// Nullopt for kText and kWord, which are not numbers.
constexpr std::optional<double> ParseNumber(SettingType type, std::string_view text) {
  switch (type) {
    case SettingType::kBoolean:
      return ParseBoolean(text);
    case SettingType::kInteger:
      return ParseDecimal(text, false);
    case SettingType::kNumber:
      return ParseDecimal(text, true);
    case SettingType::kBytes:
    case SettingType::kBytesOrPercent:
      return ParseBytes(text);
    case SettingType::kMebibytes:
      return ParseMebibytes(text);
    case SettingType::kPresence:
      return text.empty() ? 0 : 1;
    case SettingType::kText:
    case SettingType::kWord:
      break;
  }
  return std::nullopt;
}

// A number of `type` in `range`, or a percentage.
constexpr std::optional<SettingValue> ParseSettingValue(SettingType type, std::string_view text,
                                                        const SettingRange& range) {
  if (type == SettingType::kBytesOrPercent) {
    const std::optional<double> percent = ParsePercentage(text);
    if (percent) return SettingValue{*percent, true};
  }
  const bool negative = range.min < 0 && !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  const std::optional<double> number = ParseNumber(type, text);
  if (!number) return std::nullopt;
  const double value = negative ? -*number : *number;
  if (value < range.min || value > range.max) return std::nullopt;
  return SettingValue{value};
}

// Text of at most kMost characters, or a number in decimal, stored in place. Longer text does not
// compile: it would be written outside the array.
template <size_t kMost>
struct SettingText {
  char text[kMost + 1] = {};

  explicit consteval SettingText(const char* from) {
    for (size_t i = 0; from[i] != '\0'; ++i) text[i < kMost ? i : kMost + 1] = from[i];
  }
  explicit consteval SettingText(uint64_t number) {
    size_t digits = 1;
    for (uint64_t rest = number; rest >= 10; rest /= 10) ++digits;
    for (size_t i = digits; i > 0; number /= 10) text[--i] = static_cast<char>('0' + number % 10);
  }
  constexpr std::string_view view() const { return text; }
};

// The member of Settings that stores the value. On 32-bit machines size_t is uint32_t.
using SettingField =
    std::variant<bool Settings::*, int32_t Settings::*, int64_t Settings::*, uint32_t Settings::*,
                 uint64_t Settings::*, double Settings::*, BytesOrPercent Settings::*,
                 BackgroundMode Settings::*, HeapCheckMode Settings::*,
                 StackTraceMethod Settings::*, char (Settings::*)[kSettingTextBytes]>;

// Properties of a setting.
using SettingTraits = uint8_t;
inline constexpr SettingTraits kNoTraits = 0;
// Has no effect in the minimal library.
inline constexpr SettingTraits kFullLibrary = 2;
// Has an effect in the debug libraries only.
inline constexpr SettingTraits kDebugLibrary = 16;
// 0 or less is stored as the largest number of the type.
inline constexpr SettingTraits kZeroIsUnlimited = 4;
// Settings::large_report_lines records whether the variable is set.
inline constexpr SettingTraits kLinesWhereSet = 8;

struct Setting {
  SettingText<37> name;
  SettingText<11> default_text;
  SettingType type;
  SettingTraits traits;
  SettingRange range;  // of numbers
  SettingField field;

  constexpr bool Has(SettingTraits trait) const { return (traits & trait) != 0; }
};

struct SettingRow {
  Setting setting;
  const char* meaning;
};

// A word that a kWord setting may have, and the enumerator that is stored for it.
struct SettingWord {
  SettingText<17> word;
  uint8_t value;

  template <typename Enum>
  consteval SettingWord(const char* text, Enum enumerator)
      : word(text), value(static_cast<uint8_t>(enumerator)) {}
};

// The default as shown in documentation and messages.
constexpr std::string_view ShownDefault(const Setting& setting) {
  return setting.default_text.view().empty() ? "\"\"" : setting.default_text.view();
}

// The libraries' settings, in the order of their names.
std::span<const Setting> AllSettings();

// Null when no setting has this name.
const Setting* FindSetting(std::string_view name);

// Returns the value of `text`, a number of the setting's type (of kMebibytes in MiB). Nullopt if
// the value is invalid for the setting, or the setting is text.
std::optional<SettingValue> ParseSetting(const Setting& setting, std::string_view text);

// Stores the value of `text`; false if the value is invalid for the setting.
bool StoreSetting(const Setting& setting, std::string_view text, Settings* settings);

// Writes the range of values that the setting can have.
void WriteSettingRange(const Setting& setting, TextWriter* out);

}  // namespace tcmalloc
