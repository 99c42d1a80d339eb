// SPDX-License-Identifier: BSD-3-Clause
// The service manager's way of telling a process that memory is short: systemd's protocol of the
// variables MEMORY_PRESSURE_WATCH, which names what to poll, and MEMORY_PRESSURE_WRITE, which holds
// what to write there first, in Base64.
//
// Facts: systemd's document "Resource Pressure Handling" (docs/PRESSURE of its repository, known as
// MEMORY_PRESSURE before). Thread safety: any, but one thread at a time reads a descriptor. Never
// allocates, no cancellation point, no signal (SIGPIPE), errno is kept. Cost: some six system
// calls.
//
// Whoever sets the variables has the process open and write a file: a program with raised
// privileges (os/environment.h) does not look at them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tcmalloc {

// What may be written, in bytes. What systemd writes has some twenty.
inline constexpr size_t kMaxPressureWrite = 1024;

enum class PressureWatchKind : uint8_t {
  kOff,      // nothing to watch: not asked for, asked not to, or an error
  kPsiFile,  // poll for POLLPRI, never read; POLLERR: it is gone (os/psi.h)
  kStream,   // a FIFO or a socket: poll for POLLIN, then DiscardInput
};

struct PressureWatch {
  int fd = -1;  // the caller's; does not block, is closed by exec
  PressureWatchKind kind = PressureWatchKind::kOff;
  int error = 0;  // why it is off: 0 when it is meant to be, else an error number
};

// Takes the values of the two variables, null where they are not set, and does what they say.
// `root` is put in front of the name that is opened. Errors of its own:
//   EINVAL        `watch` is no absolute name, or of something else, such as a device
//   EBADMSG       `write` is no Base64
//   ENAMETOOLONG  also for a socket whose name is longer than connect takes, about a hundred bytes
//   ENODATA       a PSI file and nothing to write: without a trigger poll would report it for ever;
//                 OpenPsiTrigger (os/psi.h) sets one
// What is written into a FIFO comes back as the first input.
PressureWatch OpenPressureWatch(const char* watch, const char* write, std::string_view root = "");

// Reads what there is of a kStream, or of an eventfd (os/cgroup_events.h), and throws it away; of a
// writer who never ends, a part. False when no more will come: the other end is closed, or it
// cannot be read.
bool DiscardInput(int fd);

}  // namespace tcmalloc
