// SPDX-License-Identifier: BSD-3-Clause
// Messages on stderr, and errors in words. Thread safety: any. Never allocates.
#pragma once

#include <errno.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace tcmalloc {

// Writes all of `text` to stderr by a plain system call, without a buffer or an allocation. Works
// before the C library is ready, after exit handlers ran, and while the heap is corrupt. Keeps
// errno. Drops the part that cannot be written.
void WriteToStderr(std::string_view text) noexcept;

// Writes `text`, which ends in a newline, to stderr and aborts. Also keeps it as the abort line.
[[noreturn]] void AbortWith(std::string_view text) noexcept;
// Aborts after a report that was written already: keeps `text` as the abort line.
[[noreturn]] void AbortAfter(std::string_view text) noexcept;

// The line with which the library aborted last, for a reader of the core dump: text up to a zero,
// empty until then. A longer line is cut. A program may survive the abort by a handler that jumps
// out of it, and abort again. The aborting thread writes it; if two abort at once, one of them
// does.
inline constexpr size_t kAbortLineBytes = 256;
extern char abort_line[kAbortLineBytes];

// Writes the text of an error of files and threads; "error N" for others. The C library's functions
// allocate, lock or depend on the locale.
inline void WriteError(int error, TextWriter* out) {
  struct Words {
    int error;
    char words[36];
  };
  static constexpr Words kWords[] = {
      {EPERM, "Operation not permitted"},
      {ENOENT, "No such file or directory"},
      {ESRCH, "No such process"},
      {EIO, "Input/output error"},
      {ENXIO, "No such device or address"},
      {EAGAIN, "Resource temporarily unavailable"},
      {ENOMEM, "Out of memory"},
      {EACCES, "Permission denied"},
      {EBUSY, "Device or resource busy"},
      {EEXIST, "File exists"},
      {ENODEV, "No such device"},
      {ENOTDIR, "Not a directory"},
      {EISDIR, "Is a directory"},
      {EINVAL, "Invalid argument"},
      {ENFILE, "Too many open files in the system"},
      {EMFILE, "Too many open files"},
      {EFBIG, "File too large"},
      {ENOSPC, "No space left on device"},
      {EROFS, "Read-only file system"},
      {EPIPE, "Broken pipe"},
      {ENAMETOOLONG, "File name too long"},
      {ENOSYS, "Function not implemented"},
      {ELOOP, "Too many levels of symbolic links"},
      {ECONNREFUSED, "Connection refused"},
      {EDQUOT, "Disk quota exceeded"},
  };
  for (const Words& known : kWords) {
    if (known.error == error) {
      out->Text(known.words);
      return;
    }
  }
  out->Text("error ").Number(static_cast<uint64_t>(error));
}

}  // namespace tcmalloc
