// SPDX-License-Identifier: BSD-3-Clause
// Symbolizer: the functions of a process at addresses of its code. Files are opened when an address
// in them is asked for. Not only reading: libdw may ask a debuginfod server, if DEBUGINFOD_URLS is
// set.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "image/debug_info.h"
#include "image/modules.h"

namespace cli {

// The functions at an address of code, innermost first; at least one.
using NameFrames = std::function<const std::vector<SourceFrame>&(Address)>;

class Symbolizer {
 public:
  // `pid`: the process, through which files are looked for; 0: the image is of a file, and files
  // are looked for by their names here.
  Symbolizer(pid_t pid, Image& image);

  // At least one frame, innermost first; a function that is not known is named by its file.
  const std::vector<SourceFrame>& FramesAt(Address address);

  // FramesAt as a function, while this object lives.
  NameFrames names() {
    return [this](Address address) -> const std::vector<SourceFrame>& { return FramesAt(address); };
  }

  const std::vector<Module>& modules() const { return modules_; }
  // Why functions of some of the files that were asked for are not known, a line each.
  std::vector<std::string> Problems() const;

 private:
  DebugInfo& InfoOf(const Module& module);

  const pid_t pid_;
  const std::vector<Module> modules_;
  std::string debug_path_;
  char* debug_path_pointer_;
  std::map<Address, std::unique_ptr<DebugInfo>> infos_;  // by the module's start
  std::unordered_map<Address, std::vector<SourceFrame>> frames_;
};

}  // namespace cli
