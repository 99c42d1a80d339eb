// SPDX-License-Identifier: BSD-3-Clause
// DebugFiles finds the files with debug information that a module's file names: in .gnu_debuglink,
// and in .gnu_debugaltlink for information that several files share (dwz). The user of the process
// chose these names. So each is resolved below the process's root directory and below the
// directories that this program's user named.
//
// Make the object before the root directory of this program changes, and use it afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image/file_search.h"

namespace cli {

class DebugFiles {
 public:
  // `path` is where the module's file was found.
  DebugFiles(const FileSearch& search, const Module& module, const std::string& path);

  // The descriptors that this object has open.
  std::vector<int> descriptors() const;

  // Opens the file with that name and checksum, or the module's build id if it has one; -1 if there
  // is none.
  int OpenLinked(const std::string& name, uint32_t checksum) const;
  // Opens the file with that build id to which `name` leads from the file `from`; -1 if there is
  // none.
  int OpenShared(const std::string& name, const std::string& build_id,
                 const std::string& from) const;

 private:
  struct Folder {
    int directory;
    Resolve resolve;
  };

  int Open(const std::string& path, const std::string& build_id, uint32_t checksum) const;

  std::vector<Folder> folders_;  // below which names are resolved
  const std::string build_id_;
  std::vector<std::string> beside_;  // the folders of the module's file
};

}  // namespace cli
