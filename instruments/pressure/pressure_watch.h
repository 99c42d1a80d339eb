// SPDX-License-Identifier: BSD-3-Clause
// Memory pressure notifications from systemd, by its protocol of two variables:
// MEMORY_PRESSURE_WATCH names the file to poll, and MEMORY_PRESSURE_WRITE has, in Base64, the bytes
// to write to it first.
//
// Source: systemd's document "Resource Pressure Handling" (docs/PRESSURE in its repository,
// formerly MEMORY_PRESSURE). Thread safety: any, but one thread at a time reads a descriptor. Never
// allocates, is no cancellation point, causes no signal (SIGPIPE), keeps errno. Cost: some six
// system calls.
//
// These variables make the process open and write a file, so a program with raised privileges
// (os/environment.h) ignores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

// The most bytes that may be written. systemd writes some twenty.
inline constexpr size_t kMaxPressureWrite = 1024;

enum class PressureWatchKind : uint8_t {
  kOff,      // nothing to watch: not requested, disabled, or an error
  kPsiFile,  // poll for POLLPRI, never read; POLLERR: the group is gone
             // (instruments/pressure/psi.h)
  kStream,   // a FIFO or a socket: poll for POLLIN, then DiscardInput
};

struct PressureWatch {
  int fd = -1;  // owned by the caller; non-blocking, close-on-exec
  PressureWatchKind kind = PressureWatchKind::kOff;
  int error = 0;  // with kOff: the error number, or 0 if there was no error
};

// Opens the watch for the values of the two variables; null for a variable that is not set. `root`
// is a prefix of the path that is opened. Error numbers with a special meaning:
//   EINVAL `watch` is not an absolute path, or names another kind of file, for example a device
//   EBADMSG `write` is not valid Base64 ENAMETOOLONG also for a socket whose path is longer than
//   connect takes, about a hundred bytes ENODATA a PSI file, and no bytes to write: without a
//   trigger, poll would report the file forever;
//                 OpenPsiTrigger (instruments/pressure/psi.h) sets one
// Data that is written into a FIFO comes back as the first input.
PressureWatch OpenPressureWatch(const char* watch, const char* write, std::string_view root = "");

// Reads and discards the data available from a kStream, or from an eventfd
// (instruments/pressure/cgroup_events.h); only a part if the writer never stops. False when no more
// data can arrive, because the other end is closed or a read fails.
bool DiscardInput(int fd);

}  // namespace tcmalloc
