// SPDX-License-Identifier: BSD-3-Clause

// Runs one program to its end with an allocator preloaded and collects what it writes to its
// standard output. Its standard error stays this program's.
#pragma once

#include <span>
#include <string>

namespace tcmalloc::bench {

struct ProcessResult {
  // Empty when the program exited with status 0, else what became of it: "crashed (Aborted)".
  std::string failure;
  std::string output;

  bool ok() const { return failure.empty(); }
};

// `command` holds the program's path and its arguments. `preload` replaces LD_PRELOAD of the
// environment, which is removed when it is empty. A program that has not ended after
// `timeout_seconds` is ended by SIGALRM. Throws std::system_error when no process can be had.
ProcessResult RunPreloaded(std::span<const std::string> command, const std::string& preload,
                           unsigned timeout_seconds);

}  // namespace tcmalloc::bench
