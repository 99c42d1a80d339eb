// SPDX-License-Identifier: BSD-3-Clause
#include "commands/find_library.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "image/image.h"

namespace cli {
namespace {

// Only this library exports the symbol.
constexpr std::string_view kOwnSymbol = "tcmalloc_introspection";

bool IsThisLibrary(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string contents(std::istreambuf_iterator<char>(stream), {});
  return contents.find(kOwnSymbol) != std::string::npos;
}

// The folders in which an installation of this program has its libraries. The Debian packages have
// a separate folder for them, since gperftools' packages have files of the same names in the
// system's folder.
std::vector<std::filesystem::path> LibraryFolders() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path prefix = self.parent_path().parent_path();
  std::vector<std::filesystem::path> folders = {prefix / "lib", prefix / "lib64"};
  if (std::filesystem::is_directory(prefix / "lib", error)) {
    for (const auto& entry : std::filesystem::directory_iterator(prefix / "lib", error)) {
      if (!entry.path().string().ends_with("-linux-gnu")) continue;
      folders.push_back(entry.path() / "tcmalloc");
      folders.push_back(entry.path());
    }
  }
  return folders;
}

}  // namespace

std::string FindLibrary(const std::string& name) {
  std::string of_others;
  for (const std::filesystem::path& folder : LibraryFolders()) {
    const std::filesystem::path file = folder / name;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) continue;
    if (IsThisLibrary(file)) return file;
    of_others += fmt::format("; {} is another allocator's", file.string());
  }
  throw Failure(
      fmt::format("run: there is no {} of this program in {}{}: name one with --library FILE", name,
                  LibraryFolders().front().string(), of_others));
}

std::string CheckLibrary(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    throw Failure(fmt::format("run: there is no library {}", file));
  }
  if (!IsThisLibrary(file)) {
    throw Failure(fmt::format(
        "run: {} is not a library of this allocator (gperftools' have the same names)", file));
  }
  return std::filesystem::absolute(file);
}

}  // namespace cli
