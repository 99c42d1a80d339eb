// SPDX-License-Identifier: BSD-3-Clause
#include "os/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "os/errno_keeper.h"

namespace tcmalloc {
namespace {

int OpenIn(int directory, const char* name, int flags) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  return static_cast<int>(syscall(SYS_openat, directory, name, kFlags | flags, 0664));
}

uid_t EffectiveUser() {
#ifdef SYS_geteuid32
  return static_cast<uid_t>(syscall(SYS_geteuid32));
#else
  return static_cast<uid_t>(syscall(SYS_geteuid));
#endif
}

// True if only root and the process's user can make names in the directory.
bool IsOwn(const struct stat& directory) {
  return (directory.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
         (directory.st_uid == 0 || directory.st_uid == EffectiveUser());
}

// True if a name in a directory of several users belongs to the process's user alone.
bool IsOwnFile(const struct stat& file) {
  return file.st_uid == EffectiveUser() &&
         (S_ISFIFO(file.st_mode) || (S_ISREG(file.st_mode) && file.st_nlink == 1));
}

int OpenAmongOthers(int directory, const char* name) {
  struct stat status;
  const int there =
      static_cast<int>(syscall(SYS_openat, directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  const bool refused = there >= 0 && (fstat(there, &status) != 0 || !IsOwnFile(status));
  if (there >= 0) Close(there);
  if (refused) {
    errno = EPERM;
    return -1;
  }
  const int file = OpenIn(directory, name, O_NOFOLLOW);
  if (file < 0) return file;
  if (fstat(file, &status) == 0 && IsOwnFile(status)) return file;
  Close(file);
  errno = EPERM;
  return -1;
}

// Copies the path of the directory, with its last slash, and returns the name of the file in it;
// null if the path is too long.
const char* Split(const char* path, char (&directory)[kMaxPath]) {
  const char* slash = nullptr;
  for (const char* c = path; *c != '\0'; ++c) {
    if (*c == '/') slash = c;
  }
  if (slash == nullptr) {
    memcpy(directory, ".", 2);
    return path;
  }
  const size_t length = static_cast<size_t>(slash - path) + 1;
  if (length >= kMaxPath) return nullptr;
  memcpy(directory, path, length);
  directory[length] = '\0';
  return slash + 1;
}

int AccessError(const char* path, int mode) {
  return syscall(SYS_faccessat, AT_FDCWD, path, mode) == 0 ? 0 : errno;
}

}  // namespace

int OpenForAppending(const char* path) {
  char directory_path[kMaxPath];
  const char* const name = Split(path, directory_path);
  if (name == nullptr) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int directory = OpenFile(directory_path, O_PATH | O_DIRECTORY);
  if (directory < 0) return directory;
  struct stat status;
  int file = -1;
  if (fstat(directory, &status) == 0) {
    file = IsOwn(status) ? OpenIn(directory, name, 0) : OpenAmongOthers(directory, name);
  }
  const int error = errno;
  Close(directory);
  errno = error;
  return file;
}

bool RemoveFile(const char* path) { return unlink(path) == 0; }

bool RenameFile(const char* from, const char* to) { return rename(from, to) == 0; }

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
  char directory[kMaxPath];
  return Split(path, directory) == nullptr ? ENAMETOOLONG : ErrorOfCreatingIn(directory);
}

}  // namespace tcmalloc
