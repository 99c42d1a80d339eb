// SPDX-License-Identifier: BSD-3-Clause
// Vtables: the C++ types of a target, by pointers to their vtables. It finds a type by the symbols
// of the file (_ZTV...), or else by the type's name that the target's memory has for the vtable
// (RTTI).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "image/image.h"
#include "image/module_files.h"
#include "image/modules.h"
#include "image/symbolizer.h"

namespace cli {

class Vtables {
 public:
  // `image` outlives this object.
  Vtables(FileSearch files, Image& image);

  // The type of an object that begins with this word; empty if it is not a pointer to a vtable. A
  // vtable of a base that is not at the start of its object does not count, since no object begins
  // with it.
  const std::string& TypeOf(Address word);

  // The number of words that may be pointers to vtables in memory that the image lacks, and the
  // number of vtables whose types' names it lacks. Such types are named by the place of the vtable.
  size_t unreadable() const { return unreadable_; }
  size_t unnamed() const { return unnamed_; }
  // The reasons why types of some files may be unknown, one line each.
  std::vector<std::string> problems() const;

 private:
  struct ModuleTypes {
    std::unique_ptr<DebugInfo> names;
    std::vector<VtableSymbol> tables;  // by start
  };

  ModuleTypes& TypesOf(const Module& module);
  std::string Find(Address word);
  std::string FromSymbols(const Module& module, Address word);
  std::string FromMemory(Address word);
  // Nullopt if the memory is not readable; empty if it is not a name.
  std::optional<std::string> NameAt(Address address);
  bool IsInCode(Address address) const;
  uint64_t WordAt(Address address, bool* readable);

  const FileSearch files_;
  Image& image_;
  const std::vector<Module> modules_;
  size_t word_bytes_ = 8;
  ConfinedDemangler demangler_;
  std::map<Address, ModuleTypes> types_;  // by the module's start
  std::unordered_map<Address, std::string> known_;
  size_t unreadable_ = 0;
  size_t unnamed_ = 0;
};

}  // namespace cli
