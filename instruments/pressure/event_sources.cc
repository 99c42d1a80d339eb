// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/event_sources.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "instruments/pressure/figures.h"
#include "instruments/pressure/monitor.h"
#include "os/cgroup.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// Parses an integer with a unit; false for other text, or a time of more than kMaxPsiWindowUs.
bool ParseMicroseconds(std::string_view text, uint32_t* us) {
  uint64_t number;
  if (!TakeNumber(&text, &number) || number > kMaxPsiWindowUs) return false;
  if (text == "s") {
    number *= 1'000'000;
  } else if (text == "ms") {
    number *= 1000;
  } else if (text != "us") {
    return false;
  }
  if (number > kMaxPsiWindowUs) return false;
  *us = static_cast<uint32_t>(number);
  return true;
}

}  // namespace

bool ParsePsiTrigger(std::string_view text, PsiTrigger* trigger) {
  const std::string_view kind = TakeField(&text, ':');
  const std::string_view stall = TakeField(&text, '/');
  PsiTrigger parsed = {.full = kind == "full"};
  if (!parsed.full && kind != "some") return false;
  if (!ParseMicroseconds(stall, &parsed.stall_us) || !ParseMicroseconds(text, &parsed.window_us)) {
    return false;
  }
  if (parsed.stall_us == 0 || parsed.stall_us > parsed.window_us) return false;
  *trigger = parsed;
  return true;
}

void WritePsiTrigger(const PsiTrigger& trigger, TextWriter* text) {
  text->Text(trigger.full ? "full " : "some ");
  text->Number(trigger.stall_us).Text(" ").Number(trigger.window_us);
}

int OpenPsiTrigger(std::string_view front, std::string_view rest, const PsiTrigger& trigger) {
  const ErrnoKeeper keeper;
  const FilePath path(front, rest);
  if (!path.is_whole()) return -ENAMETOOLONG;
  char buffer[40];
  TextWriter text(buffer, sizeof(buffer));
  WritePsiTrigger(trigger, &text);
  int fd;
  do {
    fd = OpenFile(path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return -errno;
  // The kernel overwrites the last character with a zero, so one character more than the text is
  // written.
  const ssize_t bytes = static_cast<ssize_t>(text.text().size()) + 1;
  ssize_t written;
  do {
    written = WriteTo(fd, buffer, static_cast<size_t>(bytes));
  } while (written < 0 && errno == EINTR);
  if (written == bytes) return fd;
  const int error = written < 0 ? errno : EIO;
  Close(fd);
  return -error;
}

namespace {

// Returns a descriptor, or a negative error number.
int OpenIn(std::string_view directory, std::string_view name, int flags) {
  if (directory.empty()) return -ENOENT;
  const FilePath path(directory, name);
  if (!path.is_whole()) return -ENAMETOOLONG;
  int fd;
  do {
    fd = OpenFile(path.c_str(), flags | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  return fd < 0 ? -errno : fd;
}

// Returns 0 or an error number. The kernel accepts a registration only as one write.
int Register(std::string_view directory, std::string_view text) {
  const int control = OpenIn(directory, "/cgroup.event_control", O_WRONLY);
  if (control < 0) return -control;
  ssize_t written;
  do {
    written = WriteTo(control, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  const int error = written < 0 ? errno : 0;
  Close(control);
  return error;
}

// Returns an eventfd that the kernel signals for events of the file, with a file-specific argument.
int OpenRegistered(std::string_view directory, std::string_view name, std::string_view argument) {
  const int watched = OpenIn(directory, name, O_RDONLY);
  if (watched < 0) return watched;
  int event = static_cast<int>(syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK));
  int error = event < 0 ? errno : 0;
  event = MoveDescriptorUp(event);
  if (error == 0) {
    char buffer[64];
    TextWriter text(buffer, sizeof(buffer));
    text.Number(static_cast<uint64_t>(event)).Text(" ").Number(static_cast<uint64_t>(watched));
    text.Text(" ").Text(argument);
    error = Register(directory, text.text());
    if (error != 0) Close(event);
  }
  // The descriptor was needed only for the registration; the kernel itself keeps the group.
  Close(watched);
  return error == 0 ? event : -error;
}

struct Search {
  CgroupDirectories* found;
  bool failed = false;
};

void VisitDirectory(const CgroupDirectory& directory, void* context) {
  Search* const search = static_cast<Search*>(context);
  char* const found =
      directory.version == CgroupVersion::kV1 ? search->found->v1 : search->found->v2;
  if (*found != '\0' || directory.length >= CgroupDirectories::kMaxLength) return;
  if (syscall(SYS_faccessat, AT_FDCWD, directory.path, F_OK) != 0) {
    if (errno == ENOMEM) search->failed = true;
    return;
  }
  memcpy(found, directory.path, directory.length);
  found[directory.length] = '\0';
}

}  // namespace

bool ParseMemoryEvents(std::string_view text, MemoryEvents* events) {
  MemoryEvents parsed;
  bool found = false;
  while (!text.empty()) {
    MemoryFigure figure;
    if (!ParseMemoryFigure(TakeField(&text, '\n'), &figure)) continue;
    if (figure.name == "high") {
      parsed.high = figure.value;
    } else if (figure.name == "max") {
      parsed.max = figure.value;
    } else {
      continue;
    }
    found = true;
  }
  if (found) *events = parsed;
  return found;
}

int OpenMemoryEvents(std::string_view directory) {
  const ErrnoKeeper keeper;
  const int fd = OpenIn(directory, "/memory.events", O_RDONLY);
  // Poll reports an event at once for a descriptor that was never read.
  if (fd >= 0 && !ReadMemoryEvents(fd).has_value()) {
    Close(fd);
    return -EIO;
  }
  return fd;
}

std::optional<MemoryEvents> ReadMemoryEvents(int fd) {
  const ErrnoKeeper keeper;
  // The file has some seven short lines, which the kernel returns in one piece. If the text is
  // longer, the last line is dropped, since its number may be cut off.
  char text[512];
  ssize_t n;
  do {
    if (syscall(SYS_lseek, fd, 0, SEEK_SET) != 0) return std::nullopt;
    n = ReadFrom(fd, text, sizeof(text));
  } while (n < 0 && errno == EINTR);
  std::string_view lines(text, n < 0 ? 0 : static_cast<size_t>(n));
  if (lines.size() == sizeof(text)) lines = {lines.data(), lines.rfind('\n') + 1};
  MemoryEvents events;
  if (!ParseMemoryEvents(lines, &events)) return std::nullopt;
  return events;
}

int OpenMemoryThreshold(std::string_view directory, uint64_t threshold_bytes) {
  const ErrnoKeeper keeper;
  char buffer[24];
  TextWriter threshold(buffer, sizeof(buffer));
  threshold.Number(threshold_bytes);
  return OpenRegistered(directory, "/memory.usage_in_bytes", threshold.text());
}

int OpenMemoryPressureLevel(std::string_view directory, MemoryPressureLevel level) {
  const ErrnoKeeper keeper;
  static constexpr std::string_view kNames[] = {"low", "medium", "critical"};
  return OpenRegistered(directory, "/memory.pressure_level", kNames[static_cast<size_t>(level)]);
}

bool FindCgroupDirectories(CgroupDirectories* directories, std::string_view root) {
  const ErrnoKeeper keeper;
  *directories->v1 = '\0';
  *directories->v2 = '\0';
  Search search = {.found = directories};
  if (ForEachCgroupDirectory(root, VisitDirectory, &search) && !search.failed) return true;
  *directories->v1 = '\0';
  *directories->v2 = '\0';
  return false;
}

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
