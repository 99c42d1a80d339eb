// SPDX-License-Identifier: BSD-3-Clause
// FunctionIndex: finds the functions of an address in the debug information of a module. libdw's
// own search (dwarf_getscopes) does not look into namespaces, where some compilers put functions,
// and finds a unit by a table that not every compiler writes.
#pragma once

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "image/image.h"

namespace cli {

class FunctionIndex {
 public:
  struct Place {
    Dwarf_Die unit;            // that has the line table
    Dwarf_Die functions_unit;  // the same unit, or its part in a separate file (split DWARF)
    Dwarf_Addr address = 0;    // in the debug information
    // Where the unit's code around the address begins. A row of the line table with a lower address
    // is not about the address, though libdw finds it: a row at the end of other code of the unit.
    Dwarf_Addr code_start = 0;
    // Inlined functions, innermost first, then the one that contains them. Empty if no function of
    // the unit is at the address.
    std::vector<Dwarf_Die> functions;
  };

  // `module` outlives the index. `folder` is that of its file.
  FunctionIndex(Dwfl_Module* module, std::string folder)
      : module_(module), folder_(std::move(folder)) {}

  // Returns nullopt when there is no debug information about the address in memory.
  std::optional<Place> Find(Address address);

 private:
  struct Range {
    Dwarf_Addr start;
    Dwarf_Addr end;
    Dwarf_Die entry;
  };
  using Ranges = std::vector<Range>;  // by start

  static void AddRanges(Dwarf_Die* entry, Ranges* ranges);
  // The functions below the entry, those in namespaces and classes included.
  static void AddFunctions(Dwarf_Die* entry, int depth, Ranges* ranges);
  static void Sort(Ranges* ranges);
  static const Range* Lookup(const Ranges& ranges, Dwarf_Addr address);

  std::optional<Dwarf_Die> UnitAt(Address address, Place* place);
  const Ranges& FunctionsOf(Dwarf_Die* unit);

  Dwfl_Module* const module_;
  const std::string folder_;
  std::optional<Ranges> units_;              // made at the first address that libdw does not find
  std::map<const void*, Ranges> functions_;  // by the place of the unit's entry
};

}  // namespace cli
