// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/pressure_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// The most reads of one source before the others are read.
constexpr int kReadsAtOnce = 64;

// The most bytes of one read.
constexpr size_t kDiscardBytes = 512;

// The type of the file at `path` (S_IFMT). Does not open the file, since that may have effects.
// Returns 0 and sets errno on failure.
mode_t TypeOf(const char* path) {
  const int fd = OpenFile(path, O_PATH);
  if (fd < 0) return 0;
  struct stat status;
  const mode_t type = fstat(fd, &status) == 0 ? status.st_mode & S_IFMT : 0;
  const int error = errno;
  Close(fd);
  errno = error;
  return type;
}

// These return a descriptor, or -1 and errno.

int OpenForBoth(const char* path) {
  int fd;
  do {
    fd = OpenFile(path, O_RDWR | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

int Connect(std::string_view path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(address.sun_path, path.data(), path.size());
  const int fd =
      static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd < 0) return -1;
  long result;
  do {
    result = syscall(SYS_connect, fd, &address, sizeof(address));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return fd;
  const int error = errno;
  Close(fd);
  errno = error;
  return -1;
}

// Writes all bytes in one call, since the kernel reads triggers that way; new, empty channels have
// room for them. Returns 0 or an error number.
int Write(int fd, bool is_socket, const char* bytes, size_t length) {
  if (length == 0) return 0;
  ssize_t written;
  do {
    written =
        is_socket
            ? static_cast<ssize_t>(syscall(SYS_sendto, fd, bytes, length, MSG_NOSIGNAL, nullptr, 0))
            : WriteTo(fd, bytes, length);
  } while (written < 0 && errno == EINTR);
  if (written < 0) return errno;
  return static_cast<size_t>(written) == length ? 0 : EIO;
}

PressureWatch Failed(int error) { return {.error = error}; }

}  // namespace

PressureWatch OpenPressureWatch(const char* watch, const char* write, std::string_view root) {
  const ErrnoKeeper keeper;
  const std::string_view name = watch == nullptr ? "" : watch;
  if (name.empty() || name == "/dev/null") return {};
  if (name[0] != '/') return Failed(EINVAL);
  char bytes[kMaxPressureWrite];
  const std::optional<size_t> length =
      DecodeBase64(write == nullptr ? "" : write, bytes, sizeof(bytes));
  if (!length.has_value()) return Failed(EBADMSG);
  const FilePath path(root, name);
  if (!path.is_whole()) return Failed(ENAMETOOLONG);

  const mode_t type = TypeOf(path.c_str());
  PressureWatch opened = {.kind = PressureWatchKind::kStream};
  switch (type) {
    case S_IFREG:
      if (*length == 0) return Failed(ENODATA);
      opened.kind = PressureWatchKind::kPsiFile;
      opened.fd = OpenForBoth(path.c_str());
      break;
    case S_IFIFO:
      // The FIFO is opened for writing, too: otherwise poll reports its end forever after the last
      // writer has closed it.
      opened.fd = OpenForBoth(path.c_str());
      break;
    case S_IFSOCK:
      opened.fd = Connect(path.text());
      break;
    default:
      return Failed(type == 0 ? errno : EINVAL);
  }
  if (opened.fd < 0) return Failed(errno);
  const int error = Write(opened.fd, type == S_IFSOCK, bytes, *length);
  if (error == 0) return opened;
  Close(opened.fd);
  return Failed(error);
}

bool DiscardInput(int fd) {
  const ErrnoKeeper keeper;
  char buffer[kDiscardBytes];
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const ssize_t n = ReadFrom(fd, buffer, sizeof(buffer));
    if (n == 0) return false;
    if (n < 0 && errno != EINTR) return errno == EAGAIN;
  }
  return true;
}

}  // namespace tcmalloc
