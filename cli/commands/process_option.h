// SPDX-License-Identifier: BSD-3-Clause
// The argument that names the process that a command reads: a running process, or a file of one.
#pragma once

#include <CLI/CLI.hpp>

#include "commands/open_process.h"

namespace cli {

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

}  // namespace cli
