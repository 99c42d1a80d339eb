// SPDX-License-Identifier: BSD-3-Clause
#include "image/symbolizer.h"

#include <fmt/format.h>

#include <utility>

namespace cli {

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
