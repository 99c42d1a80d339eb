// SPDX-License-Identifier: BSD-3-Clause

// Runs one program to its end with an allocator preloaded and collects what it writes to its
// standard output. The program writes its standard error to that of this program.
#pragma once

#include <span>
#include <string>

namespace tcmalloc::bench {

struct ProcessResult {
  // Empty if the program exited with status 0, else a text like "crashed (Aborted)".
  std::string failure;
  std::string output;

  bool ok() const { return failure.empty(); }
};

// `command` holds the program's path and its arguments. `preload` replaces LD_PRELOAD of the
// environment; if it is empty, the variable is removed. SIGALRM ends a program that has not ended
// after `timeout_seconds`. Throws std::system_error if no process can be created.
ProcessResult RunPreloaded(std::span<const std::string> command, const std::string& preload,
                           unsigned timeout_seconds);

}  // namespace tcmalloc::bench
