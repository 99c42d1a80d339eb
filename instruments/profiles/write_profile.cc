// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profile_formats.h"
#include "os/input_file.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

void CopyFile(const char* path, ByteSink* out) {
  InputFile file(path);
  char buffer[2048];
  while (file.is_open() && out->ok()) {
    const size_t n = file.Read(buffer, sizeof(buffer));
    if (n == 0) break;
    out->Write(buffer, n);
  }
}

}  // namespace

bool WriteProfile(const Profile& profile, ProfileFormat format, ByteSink::Function function,
                  void* context) {
  ByteSink out(function, context);
  if (format == ProfileFormat::kLegacyText) {
    WriteLegacyProfile(profile, &out);
    CopyFile("/proc/self/maps", &out);
    return out.ok();
  }
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  if (!libraries.Read()) return false;
  if (format == ProfileFormat::kFolded) {
    WriteFoldedProfile(profile, libraries, &out);
    return out.ok();
  }
  return WriteProtoProfile(profile, libraries, vm, &out) && out.ok();
}

bool WriteProfileToFile(const Profile& profile, ProfileFormat format, int fd) {
  const ByteSink::Function write = [](const void* data, size_t size, void* file) {
    return WriteAllTo(*static_cast<const int*>(file), data, size);
  };
  return WriteProfile(profile, format, write, &fd);
}

}  // namespace tcmalloc
