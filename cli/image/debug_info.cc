// SPDX-License-Identifier: BSD-3-Clause
#include "image/debug_info.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "image/demangle.h"
#include "image/function_index.h"

namespace cli {
namespace {

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

SourceFrame FrameOf(Dwarf_Die* function) {
  SourceFrame frame{.linkage_name = StringOf(function, DW_AT_linkage_name)};
  if (frame.linkage_name.empty()) frame.linkage_name = StringOf(function, DW_AT_MIPS_linkage_name);
  if (frame.linkage_name.empty()) frame.linkage_name = StringOf(function, DW_AT_name);
  frame.function = Demangle(frame.linkage_name);
  frame.inlined = dwarf_tag(function) == DW_TAG_inlined_subroutine;
  return frame;
}

// Returns the name of a symbol without its version.
std::string NameOfSymbol(const std::string& name) {
  return Demangle(name.substr(0, name.find('@')));
}

}  // namespace

struct DebugInfo::State {
  Dwfl_Callbacks callbacks = {};
  Dwfl* dwfl = nullptr;
  Dwfl_Module* module = nullptr;
  std::optional<FunctionIndex> index;

  ~State() { dwfl_end(dwfl); }

  std::vector<SourceFrame> FramesFromDebugInfo(Address address) {
    std::optional<FunctionIndex::Place> place = index->Find(address);
    if (!place.has_value()) return {};
    Dwarf_Files* files = nullptr;
    if (dwarf_getsrcfiles(&place->functions_unit, &files, nullptr) != 0) files = nullptr;
    const auto file_name = [files](uint64_t number) {
      const char* const name =
          files == nullptr ? nullptr : dwarf_filesrc(files, number, nullptr, nullptr);
      return name == nullptr ? std::string() : std::string(name);
    };
    // The place of the current instruction in the next function: the line table has it for the
    // innermost function, and an inlined function has it for the function around it.
    std::string file;
    int line = 0;
    if (Dwarf_Line* const source = dwarf_getsrc_die(&place->unit, place->address)) {
      if (const char* const name = dwarf_linesrc(source, nullptr, nullptr)) file = name;
      dwarf_lineno(source, &line);
    }
    std::vector<SourceFrame> frames;
    for (Dwarf_Die& function : place->functions) {
      SourceFrame frame = FrameOf(&function);
      frame.file = std::exchange(file, file_name(NumberOf(&function, DW_AT_call_file)));
      frame.line = std::exchange(line, static_cast<int>(NumberOf(&function, DW_AT_call_line)));
      frames.push_back(std::move(frame));
    }
    // A function without an entry, for example from an assembler, may have lines.
    if (frames.empty()) frames.push_back({.file = file, .line = line});
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
  if (state_->module != nullptr) {
    state_->index.emplace(state_->module);
  } else {
    close(file.descriptor);
    problem_ = fmt::format("{}: {}", module.path, dwfl_errmsg(-1));
  }
}

DebugInfo::~DebugInfo() = default;

std::optional<Variable> DebugInfo::VariableAt(Address address) {
  if (state_->module == nullptr) return std::nullopt;
  GElf_Off offset = 0;
  GElf_Sym symbol;
  const char* const name =
      dwfl_module_addrinfo(state_->module, address, &offset, &symbol, nullptr, nullptr, nullptr);
  if (name == nullptr || GELF_ST_TYPE(symbol.st_info) == STT_FUNC || offset >= symbol.st_size) {
    return std::nullopt;
  }
  return Variable{NameOfSymbol(name), offset};
}

std::optional<Variable> DebugInfo::ThreadVariableAt(uint64_t offset) {
  if (state_->module == nullptr) return std::nullopt;
  const int n = dwfl_module_getsymtab(state_->module);
  for (int i = 0; i < n; ++i) {
    GElf_Sym symbol;
    GElf_Addr ignored = 0;
    // This is the symbol of the file, whose value is an offset.
    const char* const name =
        dwfl_module_getsym_info(state_->module, i, &symbol, &ignored, nullptr, nullptr, nullptr);
    if (name == nullptr || GELF_ST_TYPE(symbol.st_info) != STT_TLS ||
        symbol.st_shndx == SHN_UNDEF) {
      continue;
    }
    if (offset - symbol.st_value < symbol.st_size) {
      return Variable{NameOfSymbol(name), offset - symbol.st_value};
    }
  }
  return std::nullopt;
}

std::vector<SourceFrame> DebugInfo::FramesAt(Address address) {
  if (state_->module == nullptr) return {SourceFrame()};
  std::vector<SourceFrame> frames = state_->FramesFromDebugInfo(address);
  if (frames.empty()) frames.emplace_back();
  SourceFrame& outer = frames.back();
  const char* const symbol = dwfl_module_addrname(state_->module, address);
  // Minimal debug information has names without their classes.
  if (symbol != nullptr && !outer.inlined &&
      (outer.linkage_name.empty() || (IsMangled(symbol) && !IsMangled(outer.linkage_name)))) {
    const std::string name(symbol);
    outer.linkage_name = name.substr(0, name.find('@'));  // without its version
    outer.function = Demangle(outer.linkage_name);
  }
  return frames;
}

}  // namespace cli
