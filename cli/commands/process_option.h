// SPDX-License-Identifier: BSD-3-Clause
// The argument that says which process a command reads: one that runs, or a file of one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cli {

inline CLI::Option* AddProcess(CLI::App* command, std::string* process) {
  return command
      ->add_option("process", *process, "The process: its PID, or a core file or snapshot of it")
      ->required();
}

}  // namespace cli
