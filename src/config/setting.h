// SPDX-License-Identifier: BSD-3-Clause
// Setting: an environment variable as the libraries know it. SettingRow: a Setting with its
// documentation, which is not in the libraries.
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

#include "base/text_writer.h"
#include "config/setting_values.h"
#include "config/settings.h"

namespace tcmalloc {

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
