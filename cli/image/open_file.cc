// SPDX-License-Identifier: BSD-3-Clause
#include "image/open_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "image/image.h"

namespace cli {
namespace {

// The call openat2, which headers before Linux 5.6 lack.
constexpr long kOpenat2 = 437;
struct OpenHow {
  uint64_t flags = O_PATH | O_CLOEXEC;
  uint64_t mode = 0;
  uint64_t resolve = 0;
};
constexpr uint64_t kNoLinksOfKernel = 0x02;
constexpr uint64_t kInRoot = 0x10;

int own_descriptors = -1;  // /proc/self/fd

// Takes `place`, a descriptor that names a file without opening it.
OpenedFile OpenAt(int place) {
  OpenedFile file;
  if (place < 0) {
    if (errno != ENOENT && errno != ENOTDIR) file.problem = strerror(errno);
    return file;
  }
  struct stat status = {};
  if (fstat(place, &status) != 0) {
    file.problem = strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    file.problem = "is not a regular file";
  } else {
    if (own_descriptors < 0) LearnOwnDescriptors();
    // Opens the same file even if the name refers to another file by now. Without O_NONBLOCK a
    // lease of another process would make it wait.
    file.descriptor = openat(own_descriptors, std::to_string(place).c_str(),
                             O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file.descriptor < 0) file.problem = strerror(errno);
  }
  close(place);
  return file;
}

}  // namespace

void LearnOwnDescriptors() {
  if (own_descriptors >= 0) close(own_descriptors);
  own_descriptors = OpenDirectory("/proc/self/fd");
}

int OpenDirectory(const std::string& path) {
  return open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

OpenedFile OpenRegularFile(int directory, const std::string& path, Resolve resolve) {
  const OpenHow how = {.resolve = (resolve == Resolve::kLinksOfKernel ? 0 : kNoLinksOfKernel) |
                                  (resolve == Resolve::kBelow ? kInRoot : 0)};
  auto place = static_cast<int>(syscall(kOpenat2, directory, path.c_str(), &how, sizeof(how)));
  // Some sandboxes refuse a call that they do not know with EPERM, which openat2 itself does not
  // return.
  if (place < 0 && (errno == ENOSYS || errno == EPERM)) {
    const size_t start = resolve == Resolve::kBelow ? path.find_first_not_of('/') : 0;
    const std::string name = start == std::string::npos ? "." : path.substr(start);
    place = openat(directory, name.c_str(), O_PATH | O_CLOEXEC);
  }
  return OpenAt(place);
}

int OpenNamedFile(const std::string& path) {
  const OpenedFile file = OpenRegularFile(AT_FDCWD, path, Resolve::kLinksOfKernel);
  if (file.descriptor >= 0) return file.descriptor;
  throw Failure(fmt::format("cannot read {}: {}", path,
                            file.problem.empty() ? strerror(ENOENT) : file.problem));
}

}  // namespace cli
