// SPDX-License-Identifier: BSD-3-Clause
// Descriptors that the library keeps get high numbers. A program may count on the next file that it
// opens getting the lowest number that it has just closed (daemons reopen 0 to 2 that way), and one
// that closes all descriptors that it does not know gets low numbers again afterwards: then the
// library's numbers are nobody else's. They stay below 1024, which is what `select` takes and the
// usual limit.
//
// Thread safety: any. Never allocates, no cancellation point, errno is kept. Cost: two system
// calls.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tuning.h"
#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {

// The same open file under a number of Tuning::BackingFiles::first_descriptor or more, closed by
// exec; under the number that it has where the process may not have such numbers. For files that
// nobody else knows yet.
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
