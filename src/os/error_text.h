// SPDX-License-Identifier: BSD-3-Clause
// Error numbers in words, for messages. The C library's functions allocate, lock or depend on the
// locale. Thread safety: any. Never allocates.
#pragma once

#include <errno.h>

#include <cstdint>

#include "base/text_writer.h"

namespace tcmalloc {

// Writes the text of an error of files and threads; "error N" for others.
inline void WriteError(int error, TextWriter* out) {
  struct Words {
    int error;
    const char* words;
  };
  constexpr Words kWords[] = {
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
