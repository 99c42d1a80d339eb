// SPDX-License-Identifier: BSD-3-Clause
#include "image/symbolizer.h"

#include <fmt/format.h>

#include <utility>

namespace cli {

Symbolizer::Symbolizer(pid_t pid, Image& image)
    : pid_(pid),
      modules_(ReadModules(image)),
      // Beside the file, in its folder .debug, in the machine's folder, in that of the container.
      debug_path_("+:.debug:/usr/lib/debug" +
                  (pid == 0 ? std::string() : fmt::format(":/proc/{}/root/usr/lib/debug", pid))),
      debug_path_pointer_(debug_path_.data()) {}

DebugInfo& Symbolizer::InfoOf(const Module& module) {
  std::unique_ptr<DebugInfo>& info = infos_[module.start];
  if (info == nullptr) {
    info = std::make_unique<DebugInfo>(module, OpenModuleFile(pid_, module), &debug_path_pointer_);
  }
  return *info;
}

const std::vector<SourceFrame>& Symbolizer::FramesAt(Address address) {
  const auto found = frames_.find(address);
  if (found != frames_.end()) return found->second;
  std::vector<SourceFrame> frames(1);
  const Module* const module = FindModule(modules_, address);
  if (module != nullptr) frames = InfoOf(*module).FramesAt(address);
  for (SourceFrame& frame : frames) {
    if (!frame.function.empty()) continue;
    frame.function = module == nullptr
                         ? fmt::format("{:#x}", address)
                         : fmt::format("{}+{:#x}", module->name(), address - module->bias);
  }
  return frames_.emplace(address, std::move(frames)).first->second;
}

std::vector<std::string> Symbolizer::Problems() const {
  std::vector<std::string> problems;
  for (const auto& [start, info] : infos_) {
    if (!info->problem().empty()) problems.push_back(info->problem());
  }
  return problems;
}

}  // namespace cli
