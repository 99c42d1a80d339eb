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
#include <optional>
#include <string_view>

namespace tcmalloc {

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
//   EINVAL        `watch` is not an absolute path, or names another kind of file, for example a
//                 device
//   EBADMSG       `write` is not valid Base64
//   ENAMETOOLONG  also for a socket whose path is longer than connect takes, about a hundred bytes
//   ENODATA       a PSI file, and no bytes to write: without a trigger, poll would report the file
//                 forever; OpenPsiTrigger (instruments/pressure/psi.h) sets one
// Data that is written into a FIFO comes back as the first input.
PressureWatch OpenPressureWatch(const char* watch, const char* write, std::string_view root = "");

// Reads and discards the data available from a kStream, or from an eventfd
// (instruments/pressure/cgroup_events.h); only a part if the writer never stops. False when no more
// data can arrive, because the other end is closed or a read fails.
bool DiscardInput(int fd);

}  // namespace tcmalloc
