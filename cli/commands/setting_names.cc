// SPDX-License-Identifier: BSD-3-Clause
#include "commands/setting_names.h"

#include <algorithm>
#include <iterator>

#include "config/environment_hints.h"
#include "config/settings_table.h"

namespace cli {

bool IsSetting(std::string_view variable) {
  return std::any_of(
      std::begin(tcmalloc::kSettingRows), std::end(tcmalloc::kSettingRows),
      [variable](const tcmalloc::SettingRow& row) { return row.setting.name.view() == variable; });
}

std::string NearestSetting(std::string_view variable) {
  for (const tcmalloc::SettingRow& row : tcmalloc::kSettingRows) {
    const std::string_view name = row.setting.name.view();
    if (tcmalloc::EditDistance(variable, name) <= tcmalloc::kNearDistance) return std::string(name);
  }
  return {};
}

}  // namespace cli
