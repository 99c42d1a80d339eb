// SPDX-License-Identifier: BSD-3-Clause
// ModuleNames: functions, lines and variables of one module, by libdw, from its symbol table and
// from debug information, also in separate files. It parses files that another user may have made,
// so it runs in a ConfinedChild: see DebugInfo.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/module_files.h"
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

// A table of virtual functions.
struct VtableSymbol {
  Address start = 0;
  uint64_t bytes = 0;
  std::string type;  // as programmers write it
};

// Returns how much memory the reader of such a file may use, besides Limits::memory_bytes.
uint64_t MemoryToRead(int descriptor);

class ModuleNames {
 public:
  // Takes the file and `debug_file`, a descriptor of its separate debug information or -1. `files`
  // finds other files that these name, and outlives this object.
  ModuleNames(const Module& module, ModuleFile file, int debug_file, const DebugFiles& files);
  ~ModuleNames();
  ModuleNames(const ModuleNames&) = delete;
  ModuleNames& operator=(const ModuleNames&) = delete;

  // The functions at an address in memory: those that are inlined there, innermost first, then the
  // one that contains them. There is at least one.
  std::vector<SourceFrame> FramesAt(Address address);
  // The variable with that address in memory; nullopt when it is unknown.
  std::optional<Variable> VariableAt(Address address);
  // The variable with that offset in the file's thread-local storage.
  std::optional<Variable> ThreadVariableAt(uint64_t offset);
  // The tables of virtual functions in the symbol tables, by address.
  std::vector<VtableSymbol> Vtables();
  // Whether there is debug information.
  bool HasDebugInfo();
  // Why names are missing; empty if none are.
  const std::string& problem() const;

 private:
  struct State;  // libdw's

  std::unique_ptr<State> state_;
};

}  // namespace cli
