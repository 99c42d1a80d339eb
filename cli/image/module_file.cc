// SPDX-License-Identifier: BSD-3-Clause
#include "image/module_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "image/debuginfod.h"

namespace cli {
namespace {

// Whether the file has the same headers as the module in memory.
bool HasHeadOf(int descriptor, const Module& module) {
  std::vector<char> head(module.head.size());
  const ssize_t n = pread(descriptor, head.data(), head.size(), 0);
  return n == static_cast<ssize_t>(head.size()) && head == module.head;
}

// Whether the file has the code. A file with only debug information has the same build id, and
// headers of sections without contents.
bool HasCode(int descriptor) {
  elf_version(EV_CURRENT);
  Elf* const elf = elf_begin(descriptor, ELF_C_READ_MMAP, nullptr);
  bool has_code = elf != nullptr;
  for (Elf_Scn* section = nullptr;
       elf != nullptr && (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (header.sh_type == SHT_NOBITS && (header.sh_flags & SHF_EXECINSTR) != 0) has_code = false;
  }
  elf_end(elf);
  return has_code;
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
    // The target chose the name, so the file there may now be a pipe.
    descriptor_ = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor_ < 0) {
      if (errno != ENOENT && errno != ENOTDIR) {
        Note(fmt::format("{}: {}", module_.path, strerror(errno)));
      }
      return false;
    }
    struct stat status = {};
    if (fstat(descriptor_, &status) != 0 || S_ISDIR(status.st_mode)) {
      close(descriptor_);
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
