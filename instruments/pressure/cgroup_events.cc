// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/cgroup_events.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/text_fields.h"
#include "base/text_writer.h"
#include "instruments/pressure/event_set.h"
#include "instruments/pressure/memory_figures.h"
#include "os/cgroup.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
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

}  // namespace tcmalloc
