// SPDX-License-Identifier: BSD-3-Clause
#include "image/module_names.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "image/confined_child.h"
#include "image/function_index.h"
#include "image/symbolizer.h"

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

std::string HexText(const void* bytes, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  }
  return text;
}

// Returns a line if the sections of the file unpack to more than the child may use; libdw omits
// such sections without an error.
std::string ProblemOfSize(const std::string& path, int descriptor) {
  elf_version(EV_CURRENT);
  Elf* const elf = elf_begin(descriptor, ELF_C_READ_MMAP, nullptr);
  uint64_t bytes = 0;
  for (Elf_Scn* section = nullptr;
       elf != nullptr && (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Chdr header;
    if (gelf_getchdr(section, &header) != nullptr) {
      bytes += std::min<uint64_t>(header.ch_size, UINT64_MAX - bytes);
    }
  }
  elf_end(elf);
  const uint64_t most = Limits().memory_bytes + MemoryToRead(descriptor);
  if (bytes <= most) return {};
  return fmt::format("{}: its debug information unpacks to {} MiB, its reader may use {} MiB", path,
                     bytes >> 20, most >> 20);
}

// Returns the name of a symbol without its version.
std::string NameOfSymbol(const std::string& name) {
  return Demangle(name.substr(0, name.find('@')));
}

// Appends the tables of virtual functions that the file's symbols name.
void AddVtables(Elf* elf, Address bias, std::vector<VtableSymbol>* vtables) {
  constexpr std::string_view kVtable = "_ZTV";
  constexpr std::string_view kVtableFor = "vtable for ";
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_entsize == 0 ||
        (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)) {
      continue;
    }
    Elf_Data* const data = elf_getdata(section, nullptr);
    GElf_Sym symbol;
    for (int i = 0; data != nullptr && gelf_getsym(data, i, &symbol) != nullptr; ++i) {
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0) continue;
      const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (name == nullptr || !std::string_view(name).starts_with(kVtable)) continue;
      const std::string text = NameOfSymbol(name);
      if (!text.starts_with(kVtableFor)) continue;
      vtables->push_back({.start = bias + symbol.st_value,
                          .bytes = symbol.st_size,
                          .type = text.substr(kVtableFor.size())});
    }
  }
}

}  // namespace

uint64_t MemoryToRead(int descriptor) {
  // Sections of debug information are compressed to a quarter or more of their size. A sparse file
  // counts with the bytes that it has on the disk.
  constexpr uint64_t kUnpacked = 8;
  constexpr uint64_t kBlockOnDisk = 512;
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return 0;
  const auto bytes = static_cast<uint64_t>(status.st_size);
  return kUnpacked * std::min(bytes, static_cast<uint64_t>(status.st_blocks) * kBlockOnDisk);
}

struct ModuleNames::State {
  Dwfl_Callbacks callbacks = {};
  Dwfl* dwfl = nullptr;
  Dwfl_Module* module = nullptr;
  Address bias = 0;
  std::optional<FunctionIndex> index;
  const DebugFiles* debug_files = nullptr;
  int debug_file = -1;  // the file with debug information that was found by the build id
  std::string path;     // of the module
  std::string problem;

  // libdw calls this for the module's file of debug information, then for the file that it shares
  // with other modules. libdw's own function would open any file of that name.
  static int FindDebugFile(Dwfl_Module* module, void** data, const char*, Dwarf_Addr, const char*,
                           const char* link, GElf_Word checksum, char** found) {
    State& state = *static_cast<State*>(*data);
    *found = nullptr;
    // The checksum is that of the module's link, so it has debug information already if this is 0.
    Dwarf_Addr bias = 0;
    Dwarf* const info =
        link != nullptr && checksum == 0 ? dwfl_module_getdwarf(module, &bias) : nullptr;
    const char* shared = nullptr;
    const void* id = nullptr;
    const ssize_t id_bytes = info == nullptr ? 0 : dwelf_dwarf_gnu_debugaltlink(info, &shared, &id);
    int file = -1;
    if (id_bytes > 0) {
      file = state.debug_files->OpenShared(link, HexText(id, static_cast<size_t>(id_bytes)),
                                           state.path);
    } else if (state.debug_file >= 0) {
      return std::exchange(state.debug_file, -1);
    } else if (link != nullptr) {
      file = state.debug_files->OpenLinked(link, checksum);
    }
    if (file < 0) return -1;
    ConfinedChild::AllowMemory(MemoryToRead(file));
    if (state.problem.empty()) state.problem = ProblemOfSize(state.path, file);
    return file;
  }

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
    // The place of the current instruction in the next function. The line table has it for the
    // innermost function; an inlined function has it for the function around it.
    std::string file;
    int line = 0;
    Dwarf_Line* const source = dwarf_getsrc_die(&place->unit, place->address);
    Dwarf_Addr row = 0;
    if (source != nullptr && dwarf_lineaddr(source, &row) == 0 && row >= place->code_start) {
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

ModuleNames::ModuleNames(const Module& module, ModuleFile file, int debug_file,
                         const DebugFiles& files)
    : state_(std::make_unique<State>()) {
  state_->debug_files = &files;
  state_->debug_file = debug_file;
  state_->path = module.path;
  state_->bias = module.bias;
  state_->problem = ProblemOfSize(module.path, file.descriptor);
  if (debug_file >= 0 && state_->problem.empty()) {
    state_->problem = ProblemOfSize(module.path, debug_file);
  }
  state_->callbacks.find_elf = &dwfl_build_id_find_elf;
  state_->callbacks.find_debuginfo = &State::FindDebugFile;
  state_->dwfl = dwfl_begin(&state_->callbacks);
  if (state_->dwfl != nullptr) {
    dwfl_report_begin(state_->dwfl);
    state_->module = dwfl_report_elf(state_->dwfl, module.path.c_str(), file.path.c_str(),
                                     file.descriptor, module.bias, true);
    dwfl_report_end(state_->dwfl, nullptr, nullptr);
  }
  if (state_->module != nullptr) {
    void** data = nullptr;
    dwfl_module_info(state_->module, &data, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    *data = state_.get();
    state_->index.emplace(state_->module, module.path.substr(0, module.path.rfind('/')));
  } else {
    close(file.descriptor);
    state_->problem = fmt::format("{}: {}", module.path, dwfl_errmsg(-1));
  }
}

ModuleNames::~ModuleNames() = default;

std::optional<Variable> ModuleNames::VariableAt(Address address) {
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

std::optional<Variable> ModuleNames::ThreadVariableAt(uint64_t offset) {
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

bool ModuleNames::HasDebugInfo() {
  Dwarf_Addr bias = 0;
  return state_->module != nullptr && dwfl_module_getdwarf(state_->module, &bias) != nullptr;
}

const std::string& ModuleNames::problem() const { return state_->problem; }

std::vector<VtableSymbol> ModuleNames::Vtables() {
  std::vector<VtableSymbol> vtables;
  if (state_->module == nullptr) return vtables;
  GElf_Addr ignored = 0;
  AddVtables(dwfl_module_getelf(state_->module, &ignored), state_->bias, &vtables);
  std::sort(vtables.begin(), vtables.end(),
            [](const VtableSymbol& a, const VtableSymbol& b) { return a.start < b.start; });
  return vtables;
}

std::vector<SourceFrame> ModuleNames::FramesAt(Address address) {
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
