// SPDX-License-Identifier: BSD-3-Clause
// Options that are times: 500ms, 10s, 2m, 1h, or a number of seconds.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace cli {

inline CLI::Option* AddDuration(CLI::App* command, const std::string& name, double* seconds,
                                const std::string& help) {
  const std::map<std::string, double> units = {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}};
  return command->add_option(name, *seconds, help)
      ->transform(CLI::Validator(CLI::AsNumberWithUnit(units)).description(""))
      ->check(
          [](const std::string& text) {
            return std::string(text.starts_with('-')  ? "a time is not negative"
                               : std::stod(text) == 0 ? "a time is not 0"
                                                      : "");
          },
          "")
      ->type_name("TIME");
}

}  // namespace cli
