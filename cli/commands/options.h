// SPDX-License-Identifier: BSD-3-Clause
// Options that several commands have: times, the process, and settings.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>

#include "commands/open_process.h"

namespace cli {

// Options that are times: 500ms, 10s, 2m, 1h, or a number of seconds.

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

// The argument that names the process that a command reads: a running process, or a file of one.

inline void AddFiles(CLI::App* command, ProcessArgument* process) {
  command
      ->add_option("--files", process->files,
                   "Where its program and libraries are, if not on this machine: a directory with "
                   "them, with .build-id/ or with the tree of the other machine; or a file")
      ->type_name("DIR")
      ->allow_extra_args(false);  // one for each --files
}

inline void AddProcess(CLI::App* command, ProcessArgument* process) {
  command
      ->add_option("process", process->name,
                   "The process: its PID or its name, or a core file or snapshot of it")
      ->required();
  AddFiles(command, process);
}

// Settings on the command line.

// Returns the variable and the value of a setting "name=value", as in an environment. Names in
// capitals are variables, "-" stands for "_", and "sampling" for sample_parameter. Throws Failure;
// the message names the `option` that has the setting.
std::string VariableOf(std::string_view option, const std::string& setting);

}  // namespace cli
