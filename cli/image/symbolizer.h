// SPDX-License-Identifier: BSD-3-Clause
// Symbolizer: the functions of a process at addresses of its code. Files are opened when an address
// in them is first looked up. Files may also come from a debuginfod server, if DEBUGINFOD_URLS is
// set.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "image/debug_info.h"
#include "image/file_search.h"
#include "image/jit_names.h"
#include "image/modules.h"

namespace cli {

// The functions at an address of code, innermost first; at least one.
using NameFrames = std::function<const std::vector<SourceFrame>&(Address)>;

class Symbolizer {
 public:
  // `files` is used to find the image's files. The image outlives this object.
  Symbolizer(FileSearch files, Image& image);

  // Returns at least one frame, innermost first; an unknown function has the name of its file. What
  // is returned lives until UpdateJitNames.
  const std::vector<SourceFrame>& FramesAt(Address address);

  // The variable with that address; nullopt when it is unknown.
  std::optional<Variable> VariableAt(Address address);
  // The variable with that offset in the thread-local storage of a module.
  std::optional<Variable> ThreadVariableAt(const Module& module, uint64_t offset) {
    return InfoOf(module).ThreadVariableAt(offset);
  }

  // FramesAt as a function, while this object lives.
  NameFrames names() {
    return [this](Address address) -> const std::vector<SourceFrame>& { return FramesAt(address); };
  }

  // Reads the functions that the process compiled since the last address was looked up.
  void UpdateJitNames();

  const std::vector<Module>& modules() const { return modules_; }
  // The reasons why names of some of the files are missing, one line each.
  std::vector<std::string> Problems() const;

 private:
  DebugInfo& InfoOf(const Module& module);

  const FileSearch files_;
  const std::vector<Module> modules_;
  JitNames jit_names_;
  std::map<Address, std::unique_ptr<DebugInfo>> infos_;  // by the module's start
  std::unordered_map<Address, std::vector<SourceFrame>> frames_;
};

}  // namespace cli
