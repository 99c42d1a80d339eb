// SPDX-License-Identifier: BSD-3-Clause
// Memory pressure notifications from systemd, by its protocol of two variables:
// MEMORY_PRESSURE_WATCH names the file to poll, and MEMORY_PRESSURE_WRITE holds, in Base64, what to
// write to it first.
//
// Source: systemd's document "Resource Pressure Handling" (docs/PRESSURE in its repository,
// formerly MEMORY_PRESSURE). Thread safety: any, but one thread at a time reads a descriptor. Never
// allocates, no cancellation point, no signal (SIGPIPE), keeps errno. Cost: some six system calls.
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
  kPsiFile,  // poll for POLLPRI, never read; POLLERR: the group is gone (tools/pressure/os/psi.h)
  kStream,   // a FIFO or a socket: poll for POLLIN, then DiscardInput
};

struct PressureWatch {
  int fd = -1;  // owned by the caller; non-blocking, close-on-exec
  PressureWatchKind kind = PressureWatchKind::kOff;
  int error = 0;  // with kOff: the error number, or 0 where none happened
};

// Acts on the values of the two variables, null where they are not set. `root` is a prefix of the
// path that is opened. Its own error numbers:
//   EINVAL        `watch` is no absolute path, or names another kind of file, for example a device
//   EBADMSG       `write` is not valid Base64
//   ENAMETOOLONG  also for a socket whose path is longer than connect takes, about a hundred bytes
//   ENODATA       a PSI file and nothing to write: without a trigger poll would report it forever;
//                 OpenPsiTrigger (tools/pressure/os/psi.h) sets one
// Data written into a FIFO returns as the first input.
PressureWatch OpenPressureWatch(const char* watch, const char* write, std::string_view root = "");

// Reads and discards the data available from a kStream, or from an eventfd
// (tools/pressure/os/cgroup_events.h); only a part if the writer never ends. False when no more can
// come: the other end is closed, or reading fails.
bool DiscardInput(int fd);

}  // namespace tcmalloc
