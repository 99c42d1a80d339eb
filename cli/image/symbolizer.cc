// SPDX-License-Identifier: BSD-3-Clause
#include "image/symbolizer.h"

// libiberty's header otherwise declares basename in its own way.
#define HAVE_DECL_BASENAME 1
#include <fcntl.h>
#include <fmt/format.h>
#include <libiberty/demangle.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "image/confined_child.h"
#include "image/module_files.h"
#include "image/text.h"

namespace cli {

std::string Demangle(const std::string& name) {
  if (!IsMangled(name)) return name;
  const std::unique_ptr<char, void (*)(void*)> text(
      cplus_demangle(name.c_str(), DMGL_AUTO | DMGL_ANSI), &free);
  return text == nullptr ? name : std::string(text.get());
}

std::string ConfinedDemangler::Demangled(const std::string& name) {
  if (child_ == nullptr) {
    child_ = std::make_unique<ConfinedChild>(Confinement{},
                                             []() -> ConfinedChild::Answer { return &Demangle; });
  }
  return CleanText(child_->Ask(name).value_or(name));
}

namespace {

enum class Request : uint64_t {
  kProblem,
  kHasDebugInfo,
  kFrames,
  kVariable,
  kThreadVariable,
  kVtables,
};

std::string PackRequest(Request request, uint64_t number = 0) {
  return Packer().Add(static_cast<uint64_t>(request)).Add(number).Take();
}

std::string PackVariable(const std::optional<Variable>& variable) {
  if (!variable.has_value()) return {};
  return Packer().Add(variable->name).Add(variable->offset).Take();
}

std::optional<Variable> UnpackVariable(const std::string& bytes) {
  if (bytes.empty()) return std::nullopt;
  Unpacker in(bytes);
  Variable variable;
  variable.name = CleanText(in.Text());
  variable.offset = in.Number();
  return variable;
}

// Runs in the child.
std::string AnswerTo(const std::string& bytes, ModuleNames* names) {
  Unpacker in(bytes);
  const auto request = static_cast<Request>(in.Number());
  const uint64_t number = in.Number();
  Packer out;
  switch (request) {
    case Request::kProblem:
      return names->problem();
    case Request::kHasDebugInfo:
      return names->HasDebugInfo() ? "yes" : "";
    case Request::kFrames:
      for (const SourceFrame& frame : names->FramesAt(number)) {
        out.Add(frame.function).Add(frame.linkage_name).Add(frame.file);
        out.Add(static_cast<uint64_t>(frame.line)).Add(uint64_t{frame.inlined});
      }
      return out.Take();
    case Request::kVariable:
      return PackVariable(names->VariableAt(number));
    case Request::kThreadVariable:
      return PackVariable(names->ThreadVariableAt(number));
    case Request::kVtables:
      for (const VtableSymbol& table : names->Vtables()) {
        out.Add(table.start).Add(table.bytes).Add(table.type);
      }
      return out.Take();
  }
  return {};
}

}  // namespace

DebugInfo::DebugInfo(const Module& module, const FileSearch& files)
    : module_(module), files_(files) {
  ModuleFile file = OpenModuleFile(files, module);
  problem_ = std::move(file.problem);
  if (file.descriptor < 0) return;
  const bool asks_servers = AsksServers();
  const int kept = asks_servers ? fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0) : -1;
  const bool has_debug_info = Start(file, files.OpenDebugFile(module));
  if (!asks_servers) return;
  // The child could not store a file in this user's cache.
  const std::string served = has_debug_info ? std::string() : DebugFileFromServers(module.build_id);
  const int debug_file = served.empty() ? -1 : files.Open(served).descriptor;
  file.descriptor = kept;
  if (debug_file < 0 || kept < 0) {
    if (kept >= 0) close(kept);
    return;
  }
  Start(file, debug_file);
}

bool DebugInfo::Start(const ModuleFile& file, int debug_file) {
  const DebugFiles linked(files_, module_, file.path);
  Confinement confinement{.user = files_.user(), .root = files_.OpenRoot()};
  confinement.descriptors = linked.descriptors();
  confinement.descriptors.push_back(file.descriptor);
  if (confinement.root >= 0) confinement.descriptors.push_back(confinement.root);
  if (debug_file >= 0) confinement.descriptors.push_back(debug_file);
  for (const int descriptor : {file.descriptor, debug_file}) {
    if (descriptor >= 0) confinement.limits.memory_bytes += MemoryToRead(descriptor);
  }
  child_ = std::make_unique<ConfinedChild>(
      confinement, [&, names = std::shared_ptr<ModuleNames>()]() mutable -> ConfinedChild::Answer {
        names = std::make_shared<ModuleNames>(module_, file, debug_file, linked);
        return [names](const std::string& request) { return AnswerTo(request, names.get()); };
      });
  for (const int descriptor : confinement.descriptors) close(descriptor);
  const bool has_debug_info = !Ask(PackRequest(Request::kHasDebugInfo)).empty();
  const std::string problem = CleanText(Ask(PackRequest(Request::kProblem)));
  if (problem_.empty()) problem_ = problem;
  return has_debug_info;
}

std::string DebugInfo::Ask(const std::string& request) {
  if (child_ == nullptr) return {};
  std::optional<std::string> answer = child_->Ask(request);
  if (answer.has_value()) return std::move(*answer);
  problem_ = fmt::format("{}: {}", module_.path, child_->problem());
  child_ = nullptr;
  return {};
}

std::vector<SourceFrame> DebugInfo::FramesAt(Address address) {
  const std::string answer = Ask(PackRequest(Request::kFrames, address));
  std::vector<SourceFrame> frames;
  for (Unpacker in(answer); !in.is_empty();) {
    SourceFrame& frame = frames.emplace_back();
    frame.function = CleanText(in.Text());
    frame.linkage_name = CleanText(in.Text());
    frame.file = CleanText(in.Text());
    frame.line = static_cast<int>(in.Number());
    frame.inlined = in.Number() != 0;
  }
  if (frames.empty()) frames.emplace_back();
  return frames;
}

std::optional<Variable> DebugInfo::VariableAt(Address address) {
  return UnpackVariable(Ask(PackRequest(Request::kVariable, address)));
}

std::optional<Variable> DebugInfo::ThreadVariableAt(uint64_t offset) {
  return UnpackVariable(Ask(PackRequest(Request::kThreadVariable, offset)));
}

std::vector<VtableSymbol> DebugInfo::Vtables() {
  const std::string answer = Ask(PackRequest(Request::kVtables));
  std::vector<VtableSymbol> vtables;
  for (Unpacker in(answer); !in.is_empty();) {
    VtableSymbol& table = vtables.emplace_back();
    table.start = in.Number();
    table.bytes = in.Number();
    table.type = CleanText(in.Text());
  }
  return vtables;
}

Symbolizer::Symbolizer(FileSearch files, Image& image)
    : files_(std::move(files)), modules_(ReadModules(image)), jit_names_(files_, image) {}

DebugInfo& Symbolizer::InfoOf(const Module& module) {
  std::unique_ptr<DebugInfo>& info = infos_[module.start];
  if (info == nullptr) {
    info = std::make_unique<DebugInfo>(module, files_);
  }
  return *info;
}

const std::vector<SourceFrame>& Symbolizer::FramesAt(Address address) {
  const auto found = frames_.find(address);
  if (found != frames_.end()) return found->second;
  std::vector<SourceFrame> frames(1);
  const Module* const module = FindModule(modules_, address);
  if (module != nullptr) frames = InfoOf(*module).FramesAt(address);
  if (frames.back().function.empty()) {
    if (const JitFunction* const compiled = jit_names_.At(address)) {
      frames.back().function = compiled->name;
    }
  }
  for (SourceFrame& frame : frames) {
    if (!frame.function.empty()) continue;
    frame.function = module == nullptr
                         ? fmt::format("{:#x}", address)
                         : fmt::format("{}+{:#x}", module->name(), address - module->bias);
  }
  return frames_.emplace(address, std::move(frames)).first->second;
}

void Symbolizer::UpdateJitNames() {
  if (!jit_names_.Update()) return;
  std::erase_if(frames_,
                [this](const auto& frame) { return FindModule(modules_, frame.first) == nullptr; });
}

std::optional<Variable> Symbolizer::VariableAt(Address address) {
  const Module* const module = FindModule(modules_, address);
  return module == nullptr ? std::nullopt : InfoOf(*module).VariableAt(address);
}

std::vector<std::string> Symbolizer::Problems() const {
  std::vector<std::string> problems;
  for (const auto& [start, info] : infos_) {
    if (!info->problem().empty()) problems.push_back(info->problem());
  }
  if (!jit_names_.problem().empty()) problems.push_back(jit_names_.problem());
  return problems;
}

}  // namespace cli
