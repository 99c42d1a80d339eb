// SPDX-License-Identifier: BSD-3-Clause
// DebugInfo: functions and lines of one module, by libdw, from its symbol table and from debug
// information, also in separate files (/usr/lib/debug, debuginfod).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/module_file.h"
#include "image/modules.h"

namespace cli {

// A function on the stack. An inlined one has its place in the function around it.
struct SourceFrame {
  std::string function;      // as programmers write it; empty if unknown
  std::string linkage_name;  // as the symbol table has it
  std::string file;          // empty if unknown
  int line = 0;
  bool inlined = false;
};

// A place in a variable of a file.
struct Variable {
  std::string name;  // as programmers write it
  uint64_t offset = 0;
};

class DebugInfo {
 public:
  // Takes the file. `debug_path` is the search path for separate files, in the form of libdw; it
  // outlives this object.
  DebugInfo(const Module& module, ModuleFile file, char** debug_path);
  ~DebugInfo();
  DebugInfo(const DebugInfo&) = delete;
  DebugInfo& operator=(const DebugInfo&) = delete;

  // The functions at an address in memory: those that are inlined there, innermost first, then the
  // one that contains them. There is at least one.
  std::vector<SourceFrame> FramesAt(Address address);
  // The variable with that address in memory; nullopt when it is unknown.
  std::optional<Variable> VariableAt(Address address);
  // The variable with that offset in the file's thread-local storage.
  std::optional<Variable> ThreadVariableAt(uint64_t offset);
  // The reason why there are no names; empty if there are names.
  const std::string& problem() const { return problem_; }

 private:
  struct State;  // libdw's

  std::unique_ptr<State> state_;
  std::string problem_;
};

}  // namespace cli
