// SPDX-License-Identifier: BSD-3-Clause
// OpenModuleFile: the file of a module, for its symbols. A path of the target may lead nowhere or
// to another file: the file may be deleted, replaced by an upgrade, or in another mount namespace.
// So it is looked for through /proc/PID, and accepted only if it is the one that is in memory.
#pragma once

#include <sys/types.h>

#include <string>

#include "image/modules.h"

namespace cli {

struct ModuleFile {
  int descriptor = -1;  // open for reading, or -1
  // The file's name, as a reader of debug information looks for files near it.
  std::string path;
  std::string problem;  // why there is no file, in one line
};

// The caller closes the descriptor. `pid` 0: the process does not run, or not here.
ModuleFile OpenModuleFile(pid_t pid, const Module& module);

}  // namespace cli
