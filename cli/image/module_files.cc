// SPDX-License-Identifier: BSD-3-Clause
#include "image/module_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "image/modules.h"
#include "image/process.h"
#include "image/text.h"

namespace cli {
namespace {

// A directory of programs and libraries has fewer files than this.
constexpr size_t kMostFiles = 20'000;
constexpr char kRoot[] = "root/";  // the link to a process's root directory

// Returns ".build-id/ab/cdef", the path that debuggers use; empty if there is no build id.
std::string BuildIdPath(const std::string& build_id) {
  if (build_id.size() < 3) return {};
  return fmt::format(".build-id/{}/{}", build_id.substr(0, 2), build_id.substr(2));
}

}  // namespace

FileSearch::FileSearch(pid_t pid, std::vector<std::string> places)
    : pid_(pid), thread_(LivingThread(pid)), places_(std::move(places)) {
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
        problems_.push_back(CleanText(fmt::format(
            "{} has more than {} files: of the others the build ids are not known. Name "
            "a directory with fewer of them, or the file",
            place, kMostFiles)));
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
  if (!module.deleted) paths->push_back(BelowRoot(module.path));
  // This works only with CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, but also for deleted files.
  for (const Mapping& mapping : ReadMappings(thread_)) {
    if (mapping.start != module.start) continue;
    paths->push_back(
        fmt::format("/proc/{}/map_files/{:x}-{:x}", thread_, mapping.start, mapping.end));
  }
  paths->push_back(fmt::format("/proc/{}/exe", thread_));
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
    paths.push_back(BelowRoot(module.path));
  }
  if (!by_id.empty()) paths.push_back(fmt::format("/usr/lib/debug/{}.debug", by_id));
  return paths;
}

std::string FileSearch::BelowRoot(const std::string& path) const {
  return fmt::format("/proc/{}/root{}", thread_, path);
}

int FileSearch::OpenRoot() const {
  return pid_ == 0 ? -1 : OpenDirectory(fmt::format("/proc/{}/root", thread_));
}

OpenedFile FileSearch::Open(const std::string& path) const {
  const std::string process = fmt::format("/proc/{}/", thread_);
  if (pid_ == 0 || !path.starts_with(process)) {
    return OpenRegularFile(AT_FDCWD, path, Resolve::kAnywhere);
  }
  if (!path.starts_with(process + kRoot)) {
    return OpenRegularFile(AT_FDCWD, path, Resolve::kLinksOfKernel);
  }
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
  if (pid_ != 0) paths.push_back(BelowRoot(fmt::format("/usr/lib/debug/{}.debug", by_id)));
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

namespace {

// The part of libdebuginfod's interface that is used here. The library is loaded only when it is
// needed, since it loads libcurl, and most systems do not have it.
struct Library {
  void* (*begin)() = nullptr;
  // Returns a descriptor, or a negative error. A build id of length 0 is hexadecimal text. The
  // caller frees `path`.
  using Find = int (*)(void* client, const unsigned char* build_id, int length, char** path);
  Find find_executable = nullptr;
  Find find_debug_file = nullptr;
  void (*end)(void* client) = nullptr;

  Library() {
    void* const file = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (file == nullptr) return;
    const auto find = [file](auto* function, const char* name) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(file, name));
    };
    find(&begin, "debuginfod_begin");
    find(&find_executable, "debuginfod_find_executable");
    find(&find_debug_file, "debuginfod_find_debuginfo");
    find(&end, "debuginfod_end");
  }
  bool complete() const {
    return begin != nullptr && find_executable != nullptr && find_debug_file != nullptr &&
           end != nullptr;
  }
};

const Library& TheLibrary() {
  static const Library library;
  return library;
}

}  // namespace

bool AsksServers() {
  const char* const servers = getenv("DEBUGINFOD_URLS");
  return servers != nullptr && *servers != '\0' && TheLibrary().complete();
}

namespace {

std::string FromServers(const std::string& build_id, Library::Find Library::* find) {
  if (build_id.empty() || !AsksServers()) return {};
  const Library& library = TheLibrary();
  void* const client = library.begin();
  if (client == nullptr) return {};
  char* path = nullptr;
  const int descriptor =
      (library.*find)(client, reinterpret_cast<const unsigned char*>(build_id.c_str()), 0, &path);
  std::string found;
  if (descriptor >= 0) {
    close(descriptor);
    found = path;
    free(path);
  }
  library.end(client);
  return found;
}

}  // namespace

std::string ExecutableFromServers(const std::string& build_id) {
  return FromServers(build_id, &Library::find_executable);
}

std::string DebugFileFromServers(const std::string& build_id) {
  return FromServers(build_id, &Library::find_debug_file);
}

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
    if (problem_.empty()) problem_ = CleanText(text);
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
