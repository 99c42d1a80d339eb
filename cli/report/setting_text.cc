// SPDX-License-Identifier: BSD-3-Clause
#include "report/setting_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>

#include "report/table.h"

namespace cli {
namespace {

struct Form {
  std::string_view variable;
  uint64_t unit;     // of the number, in bytes
  const char* zero;  // what 0 means
  bool is_limit = false;
};

constexpr std::string_view kPrefix = "TCMALLOC_";
constexpr Form kForms[] = {
    {"TCMALLOC_HEAP_LIMIT_MB", 1 << 20, "no limit", true},
    {"TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD", 1, "off"},
    {"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", 1, "0"},
    {"TCMALLOC_RETENTION", 1, "0"},
    {"TCMALLOC_SAMPLE_PARAMETER", 1, "off"},
    {"TCMALLOC_SOFT_LIMIT", 1, "no limit", true},
};

const Form* FormOf(std::string_view variable) {
  const auto found =
      std::find_if(std::begin(kForms), std::end(kForms),
                   [variable](const Form& form) { return form.variable == variable; });
  return found == std::end(kForms) ? nullptr : &*found;
}

constexpr std::string_view kBracket = " (";

// Returns the number in the brackets, or that of the whole text.
uint64_t BytesIn(const std::string& value, const Form& form) {
  const size_t bracket = value.find(kBracket);
  const size_t at = bracket == std::string::npos ? 0 : bracket + kBracket.size();
  return strtoull(value.c_str() + at, nullptr, 10) * form.unit;
}

// The name for 'tcmalloc set'.
std::string ShortName(std::string_view variable) {
  if (variable == "TCMALLOC_SAMPLE_PARAMETER") return "sampling";
  std::string name(variable.substr(kPrefix.size()));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(tolower(c)); });
  return name;
}

}  // namespace

std::string SettingText(std::string_view variable, const std::string& value) {
  const Form* const form = FormOf(variable);
  if (form == nullptr) return value;
  const uint64_t bytes = BytesIn(value, *form);
  const size_t bracket = value.find(kBracket);
  if (bracket == std::string::npos) return bytes == 0 ? form->zero : ExactSize(bytes);
  const std::string front = value.substr(0, bracket);
  if (bytes == 0 && form->is_limit) return front + ", off: no limit was found";
  return fmt::format("{} ({})", front, ExactSize(bytes));
}

uint64_t LimitBytes(std::string_view variable, const std::string& value) {
  const Form* const form = FormOf(variable);
  return form != nullptr && form->is_limit ? BytesIn(value, *form) : 0;
}

std::string LimitRemark(uint64_t limit_bytes, uint64_t held_bytes, uint64_t group_bytes) {
  if (limit_bytes == 0) return {};
  if (limit_bytes > group_bytes) {
    return fmt::format("above the control group's limit of {}: it has no effect there",
                       Size(group_bytes));
  }
  if (limit_bytes < held_bytes) {
    return fmt::format("the program already holds {}", Size(held_bytes));
  }
  return {};
}

std::string SettingsText(const Statistics& stats) {
  std::string text = stats.settings;
  for (const SettingChange& change : stats.changes) {
    fmt::format_to(std::back_inserter(text), "{}{}={} (set while running)", text.empty() ? "" : " ",
                   ShortName(change.variable), SettingText(change.variable, change.value));
  }
  return text;
}

nlohmann::ordered_json SettingChangesJson(const Statistics& stats) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const SettingChange& change : stats.changes) {
    json[ShortName(change.variable)] = change.value;
  }
  return json;
}

}  // namespace cli
