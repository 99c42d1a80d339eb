// SPDX-License-Identifier: BSD-3-Clause
// Settings are the same when all fields of the table are.
#pragma once

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <variant>

#include "config/settings_table.h"

namespace tcmalloc {

inline bool HaveSame(const SettingField& field, const Settings& a, const Settings& b) {
  return std::visit(
      [&]<typename Value>(Value Settings::* member) {
        if constexpr (std::is_array_v<Value>)
          return std::string_view(a.*member) == b.*member;
        else
          return a.*member == b.*member;
      },
      field);
}

inline bool operator==(const Settings& a, const Settings& b) {
  return std::ranges::all_of(
      kSettingRows, [&](const SettingRow& row) { return HaveSame(row.setting.field, a, b); });
}

}  // namespace tcmalloc
