// SPDX-License-Identifier: BSD-3-Clause
#include "commands/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "image/image.h"

namespace cli {

std::string VariableOf(std::string_view option, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Failure(
        fmt::format("{} {}: write NAME=VALUE, for example release_rate=10", option, setting));
  }
  std::string name = setting.substr(0, equals);
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return islower(c) != 0; })) {
    if (name == "sampling") name = "sample_parameter";
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(toupper(c)); });
    name = "TCMALLOC_" + name;
  }
  return name + setting.substr(equals);
}

}  // namespace cli
