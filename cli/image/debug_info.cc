// SPDX-License-Identifier: BSD-3-Clause
#include "image/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "image/demangle.h"

namespace cli {
namespace {

using Dies = std::vector<Dwarf_Die>;

// Of what a libdw call allocated.
Dies TakeDies(Dwarf_Die* dies, int n) {
  Dies taken;
  if (n > 0) taken.assign(dies, dies + n);
  if (n >= 0) free(dies);
  return taken;
}

std::string StringOf(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  const char* const text = dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
  return text == nullptr ? std::string() : std::string(text);
}

uint64_t NumberOf(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) == 0 ? value : 0;
}

bool IsFunction(Dwarf_Die* die) {
  const int tag = dwarf_tag(die);
  return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_subprogram || tag == DW_TAG_entry_point;
}

SourceFrame FrameOf(Dwarf_Die* function) {
  SourceFrame frame{.linkage_name = StringOf(function, DW_AT_linkage_name)};
  if (frame.linkage_name.empty()) frame.linkage_name = StringOf(function, DW_AT_MIPS_linkage_name);
  if (frame.linkage_name.empty()) frame.linkage_name = StringOf(function, DW_AT_name);
  frame.function = Demangle(frame.linkage_name);
  frame.inlined = dwarf_tag(function) == DW_TAG_inlined_subroutine;
  return frame;
}

}  // namespace

struct DebugInfo::State {
  // A range of addresses in the file, and the unit that has it.
  struct UnitRange {
    Dwarf_Addr start;
    Dwarf_Addr end;
    Dwarf_Die unit;
  };

  Dwfl_Callbacks callbacks = {};
  Dwfl* dwfl = nullptr;
  Dwfl_Module* module = nullptr;
  // Not every compiler writes the table that libdw needs to find a unit. Made at the first miss.
  std::optional<std::vector<UnitRange>> units;

  ~State() { dwfl_end(dwfl); }

  void IndexUnits() {
    units.emplace();
    Dwarf_Addr bias = 0;
    for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr;) {
      Dwarf_Addr base = 0;
      Dwarf_Addr start = 0;
      Dwarf_Addr end = 0;
      for (ptrdiff_t at = 0; (at = dwarf_ranges(unit, at, &base, &start, &end)) > 0;) {
        units->push_back({start, end, *unit});
      }
    }
    std::sort(units->begin(), units->end(),
              [](const UnitRange& a, const UnitRange& b) { return a.start < b.start; });
  }

  // The unit of an address in memory; sets the address in the debug information.
  std::optional<Dwarf_Die> UnitAt(Address address, Dwarf_Addr* inside) {
    Dwarf_Addr bias = 0;
    if (Dwarf_Die* const unit = dwfl_module_addrdie(module, address, &bias)) {
      *inside = address - bias;
      return *unit;
    }
    if (dwfl_module_getdwarf(module, &bias) == nullptr) return std::nullopt;
    if (!units.has_value()) IndexUnits();
    *inside = address - bias;
    const auto after = std::upper_bound(
        units->begin(), units->end(), *inside,
        [](Dwarf_Addr value, const UnitRange& range) { return value < range.start; });
    if (after == units->begin() || *inside >= std::prev(after)->end) return std::nullopt;
    return std::prev(after)->unit;
  }

  // The innermost entry at the address, and those around it.
  Dies EntriesAround(Dwarf_Die unit, Dwarf_Addr address) {
    Dwarf_Die* found = nullptr;
    int n = dwarf_getscopes(&unit, address, &found);
    const Dies innermost = TakeDies(found, n);
    if (innermost.empty()) return {};
    // Around an inlined function, dwarf_getscopes has its definition, not its caller.
    Dwarf_Addr bias = 0;
    Dwarf_Die first = innermost.front();
    Dwarf_Die die;
    if (dwarf_offdie(dwfl_module_getdwarf(module, &bias), dwarf_dieoffset(&first), &die) ==
        nullptr) {
      return {};
    }
    found = nullptr;
    n = dwarf_getscopes_die(&die, &found);
    return TakeDies(found, n);
  }

  std::vector<SourceFrame> FramesFromDebugInfo(Address address) {
    Dwarf_Addr inside = 0;
    std::optional<Dwarf_Die> unit = UnitAt(address, &inside);
    if (!unit.has_value()) return {};
    Dwarf_Files* files = nullptr;
    if (dwarf_getsrcfiles(&*unit, &files, nullptr) != 0) files = nullptr;
    const auto file_name = [files](uint64_t number) {
      const char* const name =
          files == nullptr ? nullptr : dwarf_filesrc(files, number, nullptr, nullptr);
      return name == nullptr ? std::string() : std::string(name);
    };
    // Where the next function is at this moment: the line table says it of the innermost one, a
    // function that is inlined of the one around it.
    std::string file;
    int line = 0;
    if (Dwarf_Line* const source = dwarf_getsrc_die(&*unit, inside)) {
      if (const char* const name = dwarf_linesrc(source, nullptr, nullptr)) file = name;
      dwarf_lineno(source, &line);
    }
    std::vector<SourceFrame> frames;
    for (Dwarf_Die& die : EntriesAround(*unit, inside)) {
      if (!IsFunction(&die)) continue;
      SourceFrame frame = FrameOf(&die);
      frame.file = std::exchange(file, file_name(NumberOf(&die, DW_AT_call_file)));
      frame.line = std::exchange(line, static_cast<int>(NumberOf(&die, DW_AT_call_line)));
      frames.push_back(std::move(frame));
      if (!frames.back().inlined) break;
    }
    return frames;
  }
};

DebugInfo::DebugInfo(const Module& module, ModuleFile file, char** debug_path)
    : state_(std::make_unique<State>()), problem_(std::move(file.problem)) {
  if (file.descriptor < 0) return;
  state_->callbacks.find_elf = &dwfl_build_id_find_elf;
  state_->callbacks.find_debuginfo = &dwfl_standard_find_debuginfo;
  state_->callbacks.debuginfo_path = debug_path;
  state_->dwfl = dwfl_begin(&state_->callbacks);
  if (state_->dwfl != nullptr) {
    dwfl_report_begin(state_->dwfl);
    state_->module = dwfl_report_elf(state_->dwfl, module.path.c_str(), file.path.c_str(),
                                     file.descriptor, module.bias, true);
    dwfl_report_end(state_->dwfl, nullptr, nullptr);
  }
  if (state_->module == nullptr) {
    close(file.descriptor);
    problem_ = fmt::format("{}: {}", module.path, dwfl_errmsg(-1));
  }
}

DebugInfo::~DebugInfo() = default;

std::vector<SourceFrame> DebugInfo::FramesAt(Address address) {
  if (state_->module == nullptr) return {SourceFrame()};
  std::vector<SourceFrame> frames = state_->FramesFromDebugInfo(address);
  if (frames.empty()) frames.emplace_back();
  SourceFrame& outer = frames.back();
  const char* const symbol = dwfl_module_addrname(state_->module, address);
  // Brief debug information has names without their classes.
  if (symbol != nullptr && !outer.inlined &&
      (outer.linkage_name.empty() || (IsMangled(symbol) && !IsMangled(outer.linkage_name)))) {
    const std::string name(symbol);
    outer.linkage_name = name.substr(0, name.find('@'));  // without its version
    outer.function = Demangle(outer.linkage_name);
  }
  return frames;
}

}  // namespace cli
