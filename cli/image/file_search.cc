// SPDX-License-Identifier: BSD-3-Clause
#include "image/file_search.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "image/elf_file.h"
#include "image/process.h"

namespace cli {
namespace {

// A directory of programs and libraries has fewer.
constexpr size_t kMostFiles = 20'000;
constexpr char kRoot[] = "root/";  // the link to a process's root directory

// Returns ".build-id/ab/cdef", the path that debuggers use; empty if there is no build id.
std::string BuildIdPath(const std::string& build_id) {
  if (build_id.size() < 3) return {};
  return fmt::format(".build-id/{}/{}", build_id.substr(0, 2), build_id.substr(2));
}

}  // namespace

FileSearch::FileSearch(pid_t pid, std::vector<std::string> places)
    : pid_(pid), places_(std::move(places)) {
  if (pid != 0) user_ = UserOf(pid);
  for (const std::string& place : places_) {
    std::error_code error;
    if (!std::filesystem::is_directory(place, error)) {
      if (error) throw Failure(fmt::format("cannot read {}: {}", place, error.message()));
      AddFile(place);
      continue;
    }
    std::filesystem::directory_iterator files(place, error);
    if (error) throw Failure(fmt::format("cannot read {}: {}", place, error.message()));
    size_t count = 0;
    for (const std::filesystem::directory_iterator end; files != end;) {
      if (++count > kMostFiles) {
        problems_.push_back(fmt::format(
            "{} has more than {} files: of the others the build ids are not known. Name "
            "a directory with fewer of them, or the file",
            place, kMostFiles));
        break;
      }
      if (files->is_regular_file(error)) AddFile(files->path());
      files.increment(error);
      if (error) break;
    }
  }
}

void FileSearch::AddFile(const std::string& path) {
  const OpenedFile file = OpenRegularFile(AT_FDCWD, path, Resolve::kAnywhere);
  if (file.descriptor < 0) return;
  const std::string build_id = BuildIdOf(file.descriptor);
  if (!build_id.empty()) by_build_id_.emplace(build_id, path);
  close(file.descriptor);
}

void FileSearch::AddRunning(const Module& module, std::vector<std::string>* paths) const {
  if (!module.deleted) paths->push_back(fmt::format("/proc/{}/root{}", pid_, module.path));
  // This works only with CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, but also for deleted files.
  for (const Mapping& mapping : ReadMappings(pid_)) {
    if (mapping.start != module.start) continue;
    paths->push_back(fmt::format("/proc/{}/map_files/{:x}-{:x}", pid_, mapping.start, mapping.end));
  }
  paths->push_back(fmt::format("/proc/{}/exe", pid_));
}

std::vector<std::string> FileSearch::PathsOf(const Module& module) const {
  std::vector<std::string> paths;
  if (pid_ != 0) AddRunning(module, &paths);
  const std::string by_id = BuildIdPath(module.build_id);
  for (const std::string& place : places_) {
    if (!by_id.empty()) {
      paths.push_back(fmt::format("{}/{}", place, by_id));
      paths.push_back(fmt::format("{}/{}.debug", place, by_id));
    }
    paths.push_back(place + module.path);
    if (!by_id.empty()) paths.push_back(fmt::format("{}/usr/lib/debug/{}.debug", place, by_id));
  }
  const auto [first, last] = by_build_id_.equal_range(module.build_id);
  for (auto plain = first; plain != last; ++plain) paths.push_back(plain->second);
  // A file of that name directly in the directory may have no build id, or another one.
  for (const std::string& place : places_) paths.push_back(place + "/" + module.name());
  if (pid_ == 0 || !module.deleted) paths.push_back(module.path);
  if (pid_ != 0 && module.deleted) {
    paths.push_back(fmt::format("/proc/{}/root{}", pid_, module.path));
  }
  if (!by_id.empty()) paths.push_back(fmt::format("/usr/lib/debug/{}.debug", by_id));
  return paths;
}

int FileSearch::OpenRoot() const {
  return pid_ == 0 ? -1 : OpenDirectory(fmt::format("/proc/{}/root", pid_));
}

OpenedFile FileSearch::Open(const std::string& path) const {
  const std::string process = fmt::format("/proc/{}/", pid_);
  if (pid_ == 0 || !path.starts_with(process)) {
    return OpenRegularFile(AT_FDCWD, path, Resolve::kAnywhere);
  }
  if (!path.starts_with(process + kRoot)) return OpenLinkOfKernel(path);
  const int root = OpenRoot();
  if (root < 0) return {.problem = errno == ENOENT ? "" : strerror(errno)};
  OpenedFile file = OpenRegularFile(root, path.substr((process + kRoot).size()), Resolve::kBelow);
  close(root);
  return file;
}

int FileSearch::OpenDebugFile(const Module& module) const {
  const std::string by_id = BuildIdPath(module.build_id);
  if (by_id.empty()) return -1;
  std::vector<std::string> paths;
  for (const std::string& place : places_) {
    paths.push_back(fmt::format("{}/{}.debug", place, by_id));
    paths.push_back(fmt::format("{}/usr/lib/debug/{}.debug", place, by_id));
  }
  paths.push_back(fmt::format("/usr/lib/debug/{}.debug", by_id));
  if (pid_ != 0) paths.push_back(fmt::format("/proc/{}/root/usr/lib/debug/{}.debug", pid_, by_id));
  for (const std::string& path : paths) {
    const OpenedFile file = Open(path);
    if (file.descriptor < 0) continue;
    if (BuildIdOf(file.descriptor) == module.build_id) return file.descriptor;
    close(file.descriptor);
  }
  return -1;
}

std::string FileSearch::PlacesText() const {
  std::string text;
  for (const std::string& place : places_) text += (text.empty() ? "" : ", ") + place;
  return text;
}

}  // namespace cli
