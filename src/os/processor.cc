// SPDX-License-Identifier: BSD-3-Clause
#include "os/processor.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/errno_keeper.h"

namespace tcmalloc {
namespace {

// Returns 0 or an error number.
int Call(int command) {
  const ErrnoKeeper keeper;
  return syscall(SYS_membarrier, command, 0, 0) < 0 ? errno : 0;
}

}  // namespace

bool Membarrier::Succeeded(int error) {
  // These errors are permanent: the kernel lacks the call or the command, or a sandbox forbids it.
  // (EPERM can also mean "not registered", but Issue registers before it gets here.) Other errors
  // may be temporary: the kernel may be short of memory.
  if (error == ENOSYS || error == EINVAL || error == EPERM) {
    available_.store(false, std::memory_order_relaxed);
  }
  return error == 0;
}

bool Membarrier::Register() {
  return available() && Succeeded(Call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

bool Membarrier::Issue() {
  if (!available()) return false;
  int error = Call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  if (error == EPERM) {
    if (!Register()) return false;
    error = Call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
  return Succeeded(error);
}

}  // namespace tcmalloc
