// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/allocator.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace tcmalloc::bench {
namespace {

namespace fs = std::filesystem;

// Returns the file's real path; empty if there is no file.
std::string RealPath(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? std::string() : real.string();
}

Allocator FromFile(std::string name, const fs::path& path, std::string source) {
  Allocator allocator;
  allocator.name = std::move(name);
  allocator.library = RealPath(path);
  allocator.preload = allocator.library;
  allocator.source = std::move(source);
  return allocator;
}

Allocator Ours(std::string name, const fs::path& path) {
  Allocator allocator = FromFile(std::move(name), path, "expected at " + path.string());
  allocator.ours = true;
  return allocator;
}

// Finds a library that the distribution installed, in the folder of the C library (Debian's folder
// for this architecture) or in the folders of other distributions. Does not search /usr/local: this
// project may be installed there, under the soname of the gperftools library that is looked for.
Allocator Packaged(std::string name, std::string_view package,
                   std::span<const std::string_view> file_names) {
  const fs::path beside_libc = fs::path(CLibrary()).parent_path();
  const std::string source = "package " + std::string(package);
  for (const fs::path& folder : {beside_libc, fs::path("/usr" + beside_libc.string()),
                                 fs::path("/usr/lib64"), fs::path("/usr/lib")}) {
    for (const std::string_view file_name : file_names) {
      Allocator allocator = FromFile(name, folder / file_name, source);
      if (!allocator.missing()) return allocator;
    }
  }
  return FromFile(std::move(name), fs::path(), source);
}

}  // namespace

std::optional<NamedLibrary> NamedLibrary::Parse(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return std::nullopt;
  }
  return NamedLibrary{.name = std::string(text.substr(0, equals)),
                      .path = std::string(text.substr(equals + 1))};
}

std::string CLibrary() {
  // Looks malloc up in the C library itself: if this process was started with an allocator
  // preloaded, the global malloc is that allocator's.
  std::string path;
  if (void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD)) {
    Dl_info info;
    if (dladdr(dlsym(libc, "malloc"), &info) != 0) path = RealPath(info.dli_fname);
    dlclose(libc);
  }
  return path;
}

std::string ThisProgram() { return RealPath("/proc/self/exe"); }

std::string ThisFolder() { return fs::path(ThisProgram()).parent_path().string(); }

std::vector<Allocator> FindAllocators(std::span<const NamedLibrary> ours,
                                      std::span<const NamedLibrary> peers) {
  std::vector<Allocator> allocators;
  if (ours.empty()) {
    const fs::path folder = fs::path(ThisFolder()).parent_path() / "lib";
    allocators.push_back(Ours("tcmalloc_minimal", folder / "libtcmalloc_minimal.so.4"));
    allocators.push_back(Ours("tcmalloc", folder / "libtcmalloc.so.4"));
  }
  for (const NamedLibrary& library : ours) allocators.push_back(Ours(library.name, library.path));

  Allocator c_library;
  c_library.name = "glibc";
  c_library.library = CLibrary();
  c_library.source = "the C library";
  allocators.push_back(std::move(c_library));

  constexpr std::string_view kGperftools[] = {"libtcmalloc_minimal.so.4"};
  constexpr std::string_view kJemalloc[] = {"libjemalloc.so.2"};
  constexpr std::string_view kMimalloc[] = {"libmimalloc.so.2.0", "libmimalloc.so.2"};
  allocators.push_back(Packaged("gperftools", "libtcmalloc-minimal4", kGperftools));
  allocators.push_back(Packaged("jemalloc", "libjemalloc2", kJemalloc));
  allocators.push_back(Packaged("mimalloc", "libmimalloc2.0", kMimalloc));

  for (const NamedLibrary& library : peers) {
    allocators.push_back(FromFile(library.name, library.path, "expected at " + library.path));
    allocators.back().required = false;
  }
  return allocators;
}

}  // namespace tcmalloc::bench
