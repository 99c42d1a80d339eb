// SPDX-License-Identifier: BSD-3-Clause
// DebugInfo: functions and lines of one module, by libdw: from its symbol table, and from debug
// information, that of separate files included (/usr/lib/debug, debuginfod).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "image/module_file.h"
#include "image/modules.h"

namespace cli {

// A function on the stack. An inlined one has its place in the function around it.
struct SourceFrame {
  std::string function;      // as programmers write it; empty: not known
  std::string linkage_name;  // as the symbol table has it
  std::string file;          // empty: not known
  int line = 0;
  bool inlined = false;
};

class DebugInfo {
 public:
  // Takes the file. `debug_path` is where separate files are looked for, as libdw wants it; it
  // outlives this object.
  DebugInfo(const Module& module, ModuleFile file, char** debug_path);
  ~DebugInfo();
  DebugInfo(const DebugInfo&) = delete;
  DebugInfo& operator=(const DebugInfo&) = delete;

  // The functions at an address in memory: those that are inlined there, innermost first, then the
  // one that contains them. At least one.
  std::vector<SourceFrame> FramesAt(Address address);
  // Why there are no names; empty: there are.
  const std::string& problem() const { return problem_; }

 private:
  struct State;  // libdw's

  std::unique_ptr<State> state_;
  std::string problem_;
};

}  // namespace cli
