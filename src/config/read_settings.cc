// SPDX-License-Identifier: BSD-3-Clause
// Reads the settings from the environment, and reports mistakes in it.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/text_fields.h"
#include "config/environment_hints.h"
#include "config/near_name.h"
#include "config/setting.h"
#include "config/settings.h"
#include "config/settings_table.h"
#include "os/environment.h"
#include "os/log.h"

namespace tcmalloc {
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

// The beginnings of this library's names. PMI_RANK, SLURM_PROCID and OMPI_HOME are not among them:
// they belong to other software, which has more names like them. Most variables of an environment
// begin otherwise, and cost nothing.
constexpr std::string_view kOwnBeginnings[] = {"TCM", "HEA", "MAL", "PPR"};

// Returns the setting that an unknown variable probably means; of several, the one with the fewest
// differences. Null if no name is similar.
const Setting* MeantSetting(std::string_view given) {
  const Setting* meant = nullptr;
  size_t fewest = kMaxComparedName + 1;
  for (const std::string_view beginning : kOwnBeginnings) {
    if (!StartsWith(given, beginning)) continue;
    for (const Setting& setting : AllSettings()) {
      if (!StartsWith(setting.name.view(), beginning) || !IsNearName(given, setting.name.view()))
        continue;
      const size_t distance = EditDistance(given, setting.name.view());
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
  const Setting* const near = MeantSetting(given);
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
