// SPDX-License-Identifier: BSD-3-Clause
// OpenModuleFile: the file of a module, for its symbols or its contents. A path of the target may
// lead nowhere or to another file: the file may be deleted, replaced by an upgrade, in another
// mount namespace, or on another machine. So a file is accepted only if it is the one that is in
// memory, by its build id, or else by its headers.
#pragma once

#include <string>

#include "image/file_search.h"
#include "image/modules.h"

namespace cli {

enum class FileUse {
  kNames,     // symbols and debug information: a file with nothing else suffices
  kContents,  // code and constants
};

struct ModuleFile {
  int descriptor = -1;  // open for reading, or -1
  std::string path;     // the file's name, next to which other files of it may be
  std::string problem;  // the reason why there is no file, in one line
};

// The caller closes the descriptor.
ModuleFile OpenModuleFile(const FileSearch& search, const Module& module,
                          FileUse use = FileUse::kNames);

}  // namespace cli
