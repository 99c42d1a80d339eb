// SPDX-License-Identifier: BSD-3-Clause
// DebugInfo: the names of one module. A child process reads them from the module's files: see
// ModuleNames for the names, and ConfinedChild for what a file may cost.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/confined_child.h"
#include "image/file_search.h"
#include "image/module_names.h"
#include "image/modules.h"

namespace cli {

class DebugInfo {
 public:
  DebugInfo(const Module& module, const FileSearch& files);

  // As those of ModuleNames. If the child has ended, they know nothing.
  std::vector<SourceFrame> FramesAt(Address address);
  std::optional<Variable> VariableAt(Address address);
  std::optional<Variable> ThreadVariableAt(uint64_t offset);
  std::vector<VtableSymbol> Vtables();

  // Why names are missing; empty if none are.
  const std::string& problem() const { return problem_; }

 private:
  // Takes the descriptors. Returns whether the file has debug information.
  bool Start(const ModuleFile& file, int debug_file);
  std::string Ask(const std::string& request);

  const Module module_;
  const FileSearch& files_;
  std::unique_ptr<ConfinedChild> child_;
  std::string problem_;
};

}  // namespace cli
