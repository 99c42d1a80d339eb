// SPDX-License-Identifier: BSD-3-Clause
// Gives the library's descriptors high numbers. A program may rely on the next open returning the
// lowest number that it just closed (daemons reopen 0 to 2 that way). A program that closes all
// descriptors that it did not open gets low numbers again afterwards, so it does not reuse the
// library's numbers. The numbers stay below 1024, the usual limit and that of `select`.
//
// Thread safety: any. Never allocates, is no cancellation point, keeps errno. Cost: two system
// calls.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tuning.h"
#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {

// Moves an open file to a descriptor of Tuning::BackingFiles::first_descriptor or more, which exec
// closes. Returns `fd` itself if the process may not have such numbers. Requires: no other code
// knows the descriptor yet.
inline int MoveDescriptorUp(int fd) {
  if (fd < 0 || fd >= kTuning.backing_files.first_descriptor) return fd;
  const ErrnoKeeper keeper;
#ifdef SYS_fcntl
  const long moved =
      syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kTuning.backing_files.first_descriptor);
#else
  const long moved =
      syscall(SYS_fcntl64, fd, F_DUPFD_CLOEXEC, kTuning.backing_files.first_descriptor);
#endif
  if (moved < 0) return fd;
  Close(fd);
  return static_cast<int>(moved);
}

}  // namespace tcmalloc
