// SPDX-License-Identifier: BSD-3-Clause
#include "commands/environment_hints.h"

#include <fmt/format.h>

#include <fstream>
#include <set>
#include <string_view>

#include "base/text.h"
#include "commands/setting_names.h"
#include "config/environment_hints.h"
#include "image/text.h"

namespace cli {
namespace {

// Returns a hint about the variable; empty if it needs none.
std::string HintAbout(std::string_view name, std::string_view value) {
  char buffer[512];
  tcmalloc::TextWriter hint(buffer, sizeof(buffer));
  tcmalloc::WriteHint(name, value, &IsSetting, &hint);
  return CleanText(hint.text());
}

}  // namespace

std::vector<std::string> HintsAbout(const std::vector<std::string>& environment) {
  std::set<std::string> hints;
  for (const std::string& variable : environment) {
    const std::string_view text = variable;
    const size_t end = text.find('=');
    if (end == std::string_view::npos) continue;
    std::string hint = HintAbout(text.substr(0, end), text.substr(end + 1));
    if (!hint.empty()) hints.insert(std::move(hint));
  }
  return {hints.begin(), hints.end()};
}

std::vector<std::string> EnvironmentOf(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  std::vector<std::string> environment;
  for (std::string variable; std::getline(file, variable, '\0');) {
    environment.push_back(std::move(variable));
  }
  return environment;
}

}  // namespace cli
