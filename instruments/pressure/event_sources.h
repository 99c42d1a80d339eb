// SPDX-License-Identifier: BSD-3-Clause
// Memory pressure as the kernel and systemd report it, to descriptors that a process polls:
// triggers of the kernel's pressure stall information (PSI), memory events of the process's own
// control groups (cgroups), and the file that systemd names.
//
// Thread safety: any, but one thread at a time reads a descriptor. Never allocates, is no
// cancellation point, keeps errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace tcmalloc {

// Triggers of PSI: poll reports the descriptor when tasks waited for memory for longer than a given
// time within a window.
//
// Source: the kernel's documentation, psi.rst, and its code. Poll reports POLLPRI, at most once per
// window, and POLLERR when the group is gone; a descriptor without a trigger reports both
// endlessly. A descriptor has at most one trigger, which ends when it is closed. A window has at
// most 10 s, and at least 500 ms on older kernels. Older kernels refuse a process without
// CAP_SYS_RESOURCE (EPERM); newer ones allow such a process only windows that are multiples of 2 s
// (otherwise EINVAL). If the kernel has no PSI, or PSI is disabled, the file is missing (ENOENT) or
// cannot be used (EOPNOTSUPP). Times are microseconds. Cost: two system calls; a trigger of a
// privileged process starts a kernel thread.

inline constexpr uint32_t kMaxPsiWindowUs = 10'000'000;
// Windows of unprivileged processes are multiples of this.
inline constexpr uint32_t kUnprivilegedPsiWindowUs = 2'000'000;

// The file of the whole system, and that of a version 2 control group in its directory.
inline constexpr std::string_view kSystemPsiFile = "/proc/pressure/memory";
inline constexpr std::string_view kCgroupPsiFile = "/memory.pressure";

// Fires when the waiting time within the window reaches the stall time.
struct PsiTrigger {
  bool full = false;  // counts only time in which all tasks wait, not time in which any task waits
  uint32_t stall_us = 0;
  uint32_t window_us = 0;

  bool operator==(const PsiTrigger&) const = default;
};

// Parses "some:200ms/2s" or "full:...": stall time and window, integers with the unit us, ms or s.
// False for malformed text, and for values that no kernel accepts: a stall time of 0 or above the
// window, a window above kMaxPsiWindowUs.
bool ParsePsiTrigger(std::string_view text, PsiTrigger* trigger);

// Writes the kernel's format: "some 200000 2000000".
void WritePsiTrigger(const PsiTrigger& trigger, TextWriter* text);

// Opens the file whose path is `front` followed by `rest`, for example the directory of a group and
// kCgroupPsiFile, and sets the trigger. Returns a descriptor that the caller owns, non-blocking and
// close-on-exec, or a negative error number.
int OpenPsiTrigger(std::string_view front, std::string_view rest, const PsiTrigger& trigger);

// Memory events of control groups (cgroups), as descriptors to poll. Version 2 counts in
// memory.events how often the group went above its limits. Version 1 signals an eventfd when the
// group's use crosses a threshold, or when reclaiming its memory is costly.
//
// Source: the kernel's documentation, cgroup-v2.rst and cgroup-v1/memory.rst, and the kernel's
// behaviour under poll. `directory` is a result of FindCgroupDirectories. The caller owns the
// descriptors, which are non-blocking and close-on-exec. Functions that open return a descriptor or
// a negative error number: ENOENT if the OS has no such file (also for an empty `directory`),
// EACCES if this user may not open it. Cost: two to seven system calls.

// Version 2. How often, since the group was created, it and its descendants had to reclaim memory
// because they were above memory.high (`high`), or about to exceed memory.max (`max`).
struct MemoryEvents {
  uint64_t high = 0;
  uint64_t max = 0;

  bool operator==(const MemoryEvents&) const = default;
};

// Opens memory.events. Poll reports POLLPRI and POLLERR if a counter has changed since the last
// read, by this function or by ReadMemoryEvents, and keeps reporting until the next read.
int OpenMemoryEvents(std::string_view directory);

// No value when it cannot be read because the group was removed.
std::optional<MemoryEvents> ReadMemoryEvents(int fd);

// Version 1. An eventfd that becomes readable (POLLIN) whenever the group's memory use, page cache
// included, crosses `threshold_bytes` in either direction. Read it with DiscardInput. It stays
// registered until every process that has the descriptor has closed it.
int OpenMemoryThreshold(std::string_view directory, uint64_t threshold_bytes);

// Version 1. Like OpenMemoryThreshold, for the reclaim of memory of the group, or of descendants
// without listeners. Memory is being reclaimed (low), the reclaim is costly (medium), or hardly any
// memory can be reclaimed (critical). Each level includes the more severe ones. The file is
// deprecated: newer kernels log a line when it is first used.
enum class MemoryPressureLevel : uint8_t { kLow, kMedium, kCritical };
int OpenMemoryPressureLevel(std::string_view directory, MemoryPressureLevel level);

// For tests: parses memory.events. False when neither count is present.
bool ParseMemoryEvents(std::string_view text, MemoryEvents* events);

// The directories of the process's own groups. The names are zero-terminated and begin with `root`.
// A name is empty if there is no such group, it is in no mount that the process sees, or its path
// is too long to open a file. On systems with both versions, only one version has the memory files,
// except memory.pressure, which every version 2 group may have.
struct CgroupDirectories {
  static constexpr size_t kMaxLength = 4096;
  char v1[kMaxLength];
  char v2[kMaxLength];
};

// False when they cannot be read at the moment (see ReadCgroupMemoryLimit); then all names are
// empty. If there are several mounts, uses the first in which the directory exists. Requires: no
// lock is held.
bool FindCgroupDirectories(CgroupDirectories* directories, std::string_view root = "");

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
// (os/process.h) ignores them.

// Decoder for Base64 (RFC 4648, section 4: with + and /, padded with =). A pure function. It
// rejects line ends, missing padding and unused bits that are not 0, so that bytes have only one
// spelling. Cost: a few nanoseconds per character.
//
// Writes the decoded bytes to `bytes`, which has room for `size`, and returns their number. No
// value when the text is malformed or needs more room; then some bytes may have been written.
constexpr std::optional<size_t> DecodeBase64(std::string_view text, char* bytes, size_t size) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && !text.empty() && text.back() == '=') {
    text.remove_suffix(1);
    ++padding;
  }
  uint32_t bits = 0;  // decoded, and not yet written
  size_t num_bits = 0;
  size_t length = 0;
  for (const char c : text) {
    uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+') {
      value = 62;
    } else if (c == '/') {
      value = 63;
    } else {
      return std::nullopt;
    }
    bits = bits << 6 | value;
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    if (length == size) return std::nullopt;
    bytes[length++] = static_cast<char>(bits >> num_bits);
    bits &= (uint32_t{1} << num_bits) - 1;
  }
  if (bits != 0) return std::nullopt;
  return length;
}

// The most bytes that may be written. systemd writes some twenty.
inline constexpr size_t kMaxPressureWrite = 1024;

enum class PressureWatchKind : uint8_t {
  kOff,      // nothing to watch: not requested, disabled, or an error
  kPsiFile,  // poll for POLLPRI, never read; POLLERR: the group is gone
             // (instruments/pressure/event_sources.h)
  kStream,   // a FIFO or a socket: poll for POLLIN, then DiscardInput
};

struct PressureWatch {
  int fd = -1;  // owned by the caller; non-blocking, close-on-exec
  PressureWatchKind kind = PressureWatchKind::kOff;
  int error = 0;  // with kOff: the error number, or 0 if there was no error
};

// Opens the watch for the values of the two variables; null for a variable that is not set. `root`
// is a prefix of the path that is opened. Error numbers with a special meaning:
//   EINVAL        `watch` is not an absolute path, or names another kind of file, for example a
//                 device
//   EBADMSG       `write` is not valid Base64
//   ENAMETOOLONG  also for a socket whose path is longer than connect takes, about a hundred bytes
//   ENODATA       a PSI file, and no bytes to write: without a trigger, poll would report the file
//                 forever; OpenPsiTrigger (instruments/pressure/event_sources.h) sets one
// Data that is written into a FIFO comes back as the first input.
PressureWatch OpenPressureWatch(const char* watch, const char* write, std::string_view root = "");

// Reads and discards the data available from a kStream, or from an eventfd
// (instruments/pressure/event_sources.h); only a part if the writer never stops. False when no more
// data can arrive, because the other end is closed or a read fails.
bool DiscardInput(int fd);

}  // namespace tcmalloc
