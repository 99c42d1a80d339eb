// SPDX-License-Identifier: BSD-3-Clause
#include "image/debug_files.h"

#include <unistd.h>
#include <zlib.h>

#include <array>

#include "image/elf_file.h"

namespace cli {
namespace {

constexpr std::string_view kDebugRoot = "/usr/lib/debug";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// The checksum of .gnu_debuglink.
bool HasChecksum(int descriptor, uint32_t wanted) {
  std::array<unsigned char, 64 << 10> piece;
  uLong sum = 0;
  for (off_t at = 0;;) {
    const ssize_t n = pread(descriptor, piece.data(), piece.size(), at);
    if (n <= 0) return n == 0 && sum == wanted;
    sum = crc32(sum, piece.data(), static_cast<uInt>(n));
    at += n;
  }
}

}  // namespace

DebugFiles::DebugFiles(const FileSearch& search, const Module& module, const std::string& path)
    : build_id_(module.build_id), beside_({FolderOf(module.path)}) {
  const auto add = [this](int directory, Resolve resolve) {
    if (directory >= 0) folders_.push_back({directory, resolve});
  };
  add(search.OpenRoot(), Resolve::kBelow);
  for (const std::string& place : search.places()) add(OpenDirectory(place), Resolve::kAnywhere);
  add(OpenDirectory("/"), Resolve::kAnywhere);
  // The path of a core's module is on this machine, as that of a file in a place is.
  if (search.pid() == 0) beside_.push_back(FolderOf(path));
}

std::vector<int> DebugFiles::descriptors() const {
  std::vector<int> all;
  for (const Folder& folder : folders_) all.push_back(folder.directory);
  return all;
}

int DebugFiles::Open(const std::string& path, const std::string& build_id,
                     uint32_t checksum) const {
  for (const Folder& folder : folders_) {
    // A name that begins with a slash would not be one below the directory.
    const OpenedFile file =
        OpenRegularFile(folder.directory, path.substr(path.find_first_not_of('/')), folder.resolve);
    if (file.descriptor < 0) continue;
    const bool is_it = build_id.empty() ? HasChecksum(file.descriptor, checksum)
                                        : BuildIdOf(file.descriptor) == build_id;
    if (is_it) return file.descriptor;
    close(file.descriptor);
  }
  return -1;
}

int DebugFiles::OpenLinked(const std::string& name, uint32_t checksum) const {
  // The link has a name without a folder.
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) return -1;
  for (const std::string& folder : beside_) {
    for (const std::string& path : {folder + "/" + name, folder + "/.debug/" + name,
                                    std::string(kDebugRoot) + folder + "/" + name}) {
      const int found = Open(path, build_id_, checksum);
      if (found >= 0) return found;
    }
  }
  return Open("/" + name, build_id_, checksum);
}

int DebugFiles::OpenShared(const std::string& name, const std::string& build_id,
                           const std::string& from) const {
  if (build_id.size() < 3 || name.empty()) return -1;
  const std::string by_id = std::string(kDebugRoot) + "/.build-id/" + build_id.substr(0, 2) + "/" +
                            build_id.substr(2) + ".debug";
  std::vector<std::string> paths = {by_id};
  if (name[0] == '/') {
    if (name.find_first_not_of('/') != std::string::npos) paths.push_back(name);
  } else {
    paths.push_back(FolderOf(from) + "/" + name);
  }
  // Distributions keep these files in one folder.
  const size_t folder = name.rfind("/.dwz/");
  if (folder != std::string::npos) paths.push_back(std::string(kDebugRoot) + name.substr(folder));
  for (const std::string& path : paths) {
    const int found = Open(path, build_id, 0);
    if (found >= 0) return found;
  }
  return -1;
}

}  // namespace cli
