// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "os/errno_keeper.h"
#include "os/input_file.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

int AccessError(const char* path, int mode) {
  return syscall(SYS_faccessat, AT_FDCWD, path, mode) == 0 ? 0 : errno;
}

}  // namespace

int ErrorOfCreatingIn(const char* directory) {
  const ErrnoKeeper keeper;
  const int error = AccessError(directory, W_OK | X_OK);
  if (error != 0) return error;
  const int fd = OpenFile(directory, O_PATH | O_DIRECTORY);
  if (fd < 0) return errno;
  Close(fd);
  return 0;
}

int ErrorOfCreating(const char* path) {
  const ErrnoKeeper keeper;
  // This finds errors of the name itself. It opens no file, and follows no link.
  const int fd = OpenFile(path, O_PATH | O_NOFOLLOW);
  if (fd >= 0) {
    Close(fd);
  } else if (errno != ENOENT) {
    return errno;
  }
  const char* slash = nullptr;
  for (const char* c = path; *c != '\0'; ++c) {
    if (*c == '/') slash = c;
  }
  if (slash == nullptr) return ErrorOfCreatingIn(".");
  char directory[kMaxPath];
  const size_t length = static_cast<size_t>(slash - path) + 1;
  if (length >= sizeof(directory)) return ENAMETOOLONG;
  memcpy(directory, path, length);
  directory[length] = '\0';
  return ErrorOfCreatingIn(directory);
}

}  // namespace tcmalloc
