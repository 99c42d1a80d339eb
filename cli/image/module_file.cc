// SPDX-License-Identifier: BSD-3-Clause
#include "image/module_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "image/debuginfod.h"
#include "image/elf_file.h"

namespace cli {
namespace {

// Whether the file has the same headers as the module in memory.
bool HasHeadOf(int descriptor, const Module& module) {
  std::vector<char> head(module.head.size());
  const ssize_t n = pread(descriptor, head.data(), head.size(), 0);
  return n == static_cast<ssize_t>(head.size()) && head == module.head;
}

class Opening {
 public:
  Opening(const FileSearch& search, const Module& module, FileUse use)
      : search_(search), module_(module), use_(use) {}

  ModuleFile Open() {
    for (const std::string& path : search_.PathsOf(module_)) {
      if (Try(path)) return {.descriptor = descriptor_, .path = path};
    }
    const std::string served = ExecutableFromServers(module_.build_id);
    if (!served.empty() && Try(served)) return {.descriptor = descriptor_, .path = served};
    NoteMissing();
    return {.problem = std::move(problem_)};
  }

 private:
  bool Try(const std::string& path) {
    const OpenedFile file = search_.Open(path);
    descriptor_ = file.descriptor;
    if (descriptor_ < 0) {
      if (!file.problem.empty()) Note(fmt::format("{}: {}", module_.path, file.problem));
      return false;
    }
    const std::string build_id = BuildIdOf(descriptor_);
    const bool same =
        module_.build_id.empty() ? HasHeadOf(descriptor_, module_) : build_id == module_.build_id;
    if (same && (use_ == FileUse::kNames || HasCode(descriptor_))) return true;
    close(descriptor_);
    if (same || path.ends_with("/exe")) return false;  // of another module
    NoteOther(path, build_id);
    return false;
  }

  void NoteOther(const std::string& path, const std::string& build_id) {
    if (search_.pid() == 0) {
      Note(module_.build_id.empty()
               ? fmt::format("{} is not the file that the process had mapped", path)
               : fmt::format("{} is another file than the process's, which has build id {}; this "
                             "one has {}",
                             path, module_.build_id, build_id.empty() ? "none" : build_id));
      return;
    }
    Note(module_.build_id.empty()
             ? fmt::format("{} is not the file that the process has mapped: it was replaced",
                           module_.path)
             : fmt::format("{} was replaced: the process has build id {}, the file {}",
                           module_.path, module_.build_id, build_id.empty() ? "none" : build_id));
  }

  void NoteMissing() {
    if (search_.pid() != 0) {
      Note(fmt::format("{} {}", module_.path, module_.deleted ? "was deleted" : "does not exist"));
      return;
    }
    std::string places = search_.PlacesText();
    places = places.empty() ? "on this machine" : "in " + places + ", and not on this machine";
    if (AsksServers()) places += ", and no server in DEBUGINFOD_URLS has it";
    Note(fmt::format("{} (build id {}) is not {}{}", module_.path,
                     module_.build_id.empty() ? "none" : module_.build_id, places,
                     search_.PlacesText().empty() ? ": --files names where it is" : ""));
  }

  // Keeps the first problem, which is that of the best name.
  void Note(std::string text) {
    if (problem_.empty()) problem_ = std::move(text);
  }

  const FileSearch& search_;
  const Module& module_;
  const FileUse use_;
  int descriptor_ = -1;
  std::string problem_;
};

}  // namespace

ModuleFile OpenModuleFile(const FileSearch& search, const Module& module, FileUse use) {
  return Opening(search, module, use).Open();
}

}  // namespace cli
