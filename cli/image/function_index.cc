// SPDX-License-Identifier: BSD-3-Clause
#include "image/function_index.h"

#include <dwarf.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cli {
namespace {

constexpr int kDeepestNamespace = 64;
// The deepest nesting of blocks and inlined functions.
constexpr int kDeepestBlock = 1000;

bool MayContainFunctions(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
         tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

// True if libdw may open the other file of a unit, if there is one. If a pipe has that name, libdw
// would wait at it; if a device has it, opening it would have an effect. The names are those that
// libdw tries.
bool MayOpenOtherFile(Dwarf_Die* unit, const std::string& folder) {
  const auto text = [unit](unsigned name) {
    Dwarf_Attribute attribute;
    const char* const value = dwarf_formstring(dwarf_attr(unit, name, &attribute));
    return std::string(value == nullptr ? "" : value);
  };
  std::string name = text(DW_AT_dwo_name);
  if (name.empty()) name = text(DW_AT_GNU_dwo_name);
  const std::string built_in = text(DW_AT_comp_dir);
  for (const std::string& path :
       {name, folder + "/" + name, built_in + "/" + name, folder + "/" + built_in + "/" + name}) {
    struct stat status = {};
    if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return false;
  }
  return true;
}

// A unit may be in two files. Then the other part has the functions.
Dwarf_Die PartWithFunctions(const Dwarf_Die& unit, const std::string& folder) {
  Dwarf_Die whole = unit;
  if (!MayOpenOtherFile(&whole, folder)) return whole;
  Dwarf_Die part;
  uint8_t type = 0;
  if (dwarf_cu_info(whole.cu, nullptr, &type, nullptr, &part, nullptr, nullptr, nullptr) == 0 &&
      type == DW_UT_skeleton && dwarf_tag(&part) == DW_TAG_compile_unit) {
    return part;
  }
  return whole;
}

// Returns the part of a function that contains the address, if any: an inlined function or a block.
std::optional<Dwarf_Die> PartAt(Dwarf_Die* entry, Dwarf_Addr address) {
  Dwarf_Die child;
  if (dwarf_child(entry, &child) != 0) return std::nullopt;
  do {
    const int tag = dwarf_tag(&child);
    const bool is_part = tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
                         tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
    if (is_part && dwarf_haspc(&child, address) > 0) return child;
  } while (dwarf_siblingof(&child, &child) == 0);
  return std::nullopt;
}

}  // namespace

void FunctionIndex::AddRanges(Dwarf_Die* entry, Ranges* ranges) {
  Dwarf_Addr base = 0;
  Dwarf_Addr start = 0;
  Dwarf_Addr end = 0;
  for (ptrdiff_t at = 0; (at = dwarf_ranges(entry, at, &base, &start, &end)) > 0;) {
    ranges->push_back({start, end, *entry});
  }
}

void FunctionIndex::AddFunctions(Dwarf_Die* entry, int depth, Ranges* ranges) {
  Dwarf_Die child;
  if (depth > kDeepestNamespace || dwarf_child(entry, &child) != 0) return;
  do {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram) {
      AddRanges(&child, ranges);
    } else if (MayContainFunctions(tag)) {
      AddFunctions(&child, depth + 1, ranges);
    }
  } while (dwarf_siblingof(&child, &child) == 0);
}

void FunctionIndex::Sort(Ranges* ranges) {
  std::sort(ranges->begin(), ranges->end(),
            [](const Range& a, const Range& b) { return a.start < b.start; });
}

const FunctionIndex::Range* FunctionIndex::Lookup(const Ranges& ranges, Dwarf_Addr address) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), address,
                       [](Dwarf_Addr value, const Range& range) { return value < range.start; });
  if (after == ranges.begin()) return nullptr;
  const Range& range = *std::prev(after);
  return address < range.end ? &range : nullptr;
}

std::optional<Dwarf_Die> FunctionIndex::UnitAt(Address address, Place* place) {
  Dwarf_Addr bias = 0;
  // For an address in a gap of the table of units, libdw returns the unit before the gap.
  if (Dwarf_Die* const unit = dwfl_module_addrdie(module_, address, &bias)) {
    place->address = address - bias;
    Ranges ranges;
    AddRanges(unit, &ranges);
    Sort(&ranges);
    const Range* const around = Lookup(ranges, place->address);
    if (around != nullptr) place->code_start = around->start;
    if (around != nullptr || ranges.empty()) return *unit;
  }
  if (dwfl_module_getdwarf(module_, &bias) == nullptr) return std::nullopt;
  place->address = address - bias;
  if (!units_.has_value()) {
    units_.emplace();
    for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module_, unit, &bias)) != nullptr;) {
      AddRanges(unit, &*units_);
    }
    Sort(&*units_);
  }
  const Range* const range = Lookup(*units_, place->address);
  if (range == nullptr) return std::nullopt;
  place->code_start = range->start;
  return range->entry;
}

const FunctionIndex::Ranges& FunctionIndex::FunctionsOf(Dwarf_Die* unit) {
  const auto [at, is_new] = functions_.try_emplace(unit->addr);
  if (is_new) {
    AddFunctions(unit, 0, &at->second);
    Sort(&at->second);
  }
  return at->second;
}

std::optional<FunctionIndex::Place> FunctionIndex::Find(Address address) {
  Place place;
  const std::optional<Dwarf_Die> unit = UnitAt(address, &place);
  if (!unit.has_value()) return std::nullopt;
  place.unit = *unit;
  place.functions_unit = PartWithFunctions(*unit, folder_);
  const Range* const function = Lookup(FunctionsOf(&place.functions_unit), place.address);
  if (function == nullptr) return place;
  place.functions.push_back(function->entry);
  Dwarf_Die entry = function->entry;
  for (int depth = 0; depth < kDeepestBlock; ++depth) {
    const std::optional<Dwarf_Die> part = PartAt(&entry, place.address);
    if (!part.has_value()) break;
    entry = *part;
    if (dwarf_tag(&entry) == DW_TAG_inlined_subroutine) place.functions.push_back(entry);
  }
  std::reverse(place.functions.begin(), place.functions.end());
  return place;
}

}  // namespace cli
