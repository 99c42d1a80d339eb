// SPDX-License-Identifier: BSD-3-Clause
#include "image/debuginfod.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>

namespace cli {
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

}  // namespace cli
