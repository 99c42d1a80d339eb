// SPDX-License-Identifier: BSD-3-Clause
#include "image/module_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "image/process.h"

namespace cli {
namespace {

std::string BuildIdOf(int descriptor) {
  elf_version(EV_CURRENT);
  Elf* const elf = elf_begin(descriptor, ELF_C_READ_MMAP, nullptr);
  const void* bytes = nullptr;
  const ssize_t n = elf == nullptr ? 0 : dwelf_elf_gnu_build_id(elf, &bytes);
  std::string id;
  for (ssize_t i = 0; i < n; ++i) {
    id += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  }
  elf_end(elf);
  return id;
}

// Whether the file begins like the module in memory.
bool HasHeadOf(int descriptor, const Module& module) {
  std::vector<char> head(module.head.size());
  const ssize_t n = pread(descriptor, head.data(), head.size(), 0);
  return n == static_cast<ssize_t>(head.size()) && head == module.head;
}

// The places where the file may be, best first.
std::vector<std::string> PathsOf(pid_t pid, const Module& module) {
  if (pid == 0) return {module.path};
  std::vector<std::string> paths;
  if (!module.deleted) paths.push_back(fmt::format("/proc/{}/root{}", pid, module.path));
  // Only with CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, but also for deleted files.
  for (const Mapping& mapping : ReadMappings(pid)) {
    if (mapping.start != module.start) continue;
    paths.push_back(fmt::format("/proc/{}/map_files/{:x}-{:x}", pid, mapping.start, mapping.end));
  }
  paths.push_back(fmt::format("/proc/{}/exe", pid));
  if (!module.deleted) paths.push_back(module.path);
  if (module.deleted) paths.push_back(fmt::format("/proc/{}/root{}", pid, module.path));
  return paths;
}

// A file of debug information alone, of the same build.
std::string DebugFileOf(const std::string& build_id) {
  if (build_id.size() < 3) return {};
  return fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", build_id.substr(0, 2),
                     build_id.substr(2));
}

}  // namespace

ModuleFile OpenModuleFile(pid_t pid, const Module& module) {
  std::string problem;
  const auto note = [&problem](std::string text) {
    if (problem.empty()) problem = std::move(text);
  };
  std::vector<std::string> paths = PathsOf(pid, module);
  if (!module.build_id.empty()) paths.push_back(DebugFileOf(module.build_id));
  for (const std::string& path : paths) {
    // The target chose the name: what is there now may be a pipe.
    const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) {
      if (errno != ENOENT) note(fmt::format("{}: {}", module.path, strerror(errno)));
      continue;
    }
    const std::string build_id = BuildIdOf(descriptor);
    if (module.build_id.empty() ? HasHeadOf(descriptor, module) : build_id == module.build_id) {
      return {.descriptor = descriptor, .path = path};
    }
    close(descriptor);
    if (path.ends_with("/exe")) continue;  // of another module
    note(module.build_id.empty()
             ? fmt::format("{} is not the file that the process has mapped: it was replaced",
                           module.path)
             : fmt::format("{} was replaced: the process has build id {}, the file {}", module.path,
                           module.build_id, build_id.empty() ? "none" : build_id));
  }
  note(fmt::format("{} {}", module.path, module.deleted ? "was deleted" : "does not exist"));
  return {.problem = std::move(problem)};
}

}  // namespace cli
