// SPDX-License-Identifier: BSD-3-Clause
// Names of functions at addresses of code, as programmers write them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "image/confined_child.h"
#include "image/jit_names.h"
#include "image/module_files.h"
#include "image/module_names.h"
#include "image/modules.h"

namespace cli {

// Names of functions as programmers write them.

// "_Z": C++, and Rust until 2025; "_R": Rust.
inline bool IsMangled(const std::string& name) {
  return name.starts_with("_Z") || name.starts_with("_R");
}
// The name of a function of C++ or Rust without its parameters; other names as they are. A name of
// another user may be made to take gigabytes, so only a ConfinedChild calls this with one.
std::string Demangle(const std::string& name);

// Demangles names of other users, in a child that is started with the first one.
class ConfinedDemangler {
 public:
  // Like Demangle. A name that costs too much, and those after it, stay as they are.
  std::string Demangled(const std::string& name);

 private:
  std::unique_ptr<ConfinedChild> child_;
};

// DebugInfo: the names of one module. A child process reads them from the module's files: see
// ModuleNames for the names, and ConfinedChild for what a file may cost.
class DebugInfo {
 public:
  DebugInfo(const Module& module, const FileSearch& files);

  // Like the functions of ModuleNames. If the child has ended, they return unknown names.
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

// Symbolizer: the functions of a process at addresses of its code. Files are opened when an address
// in them is first looked up. Files may also come from a debuginfod server, if DEBUGINFOD_URLS is
// set.

// The functions at an address of code, innermost first; at least one.
using NameFrames = std::function<const std::vector<SourceFrame>&(Address)>;

class Symbolizer {
 public:
  // `files` is used to find the image's files. The image outlives this object.
  Symbolizer(FileSearch files, Image& image);

  // Returns at least one frame, innermost first; an unknown function has the name of its file. The
  // result is valid until UpdateJitNames.
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

  // Ends the children that read files, until the next lookup. Frames stay valid.
  void EndReaders() { infos_.clear(); }

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
