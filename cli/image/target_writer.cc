// SPDX-License-Identifier: BSD-3-Clause
#include "image/target_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "image/process.h"

namespace cli {

TargetWriter::TargetWriter(pid_t pid) : pid_(pid), thread_(ThreadWithMemory(pid)) {
  memory_ = open(fmt::format("/proc/{}/mem", thread_).c_str(), O_RDWR | O_CLOEXEC);
  // In some containers /proc may not be written to, but the system call is permitted.
  if (memory_ < 0 && errno != EROFS) throw Failure(ExplainDenial(pid_, errno, "write to"));
}

TargetWriter::~TargetWriter() {
  if (memory_ >= 0) close(memory_);
}

bool TargetWriter::TryLock() {
  return memory_ < 0 || flock(memory_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool TargetWriter::Has(Address address, std::string_view content) const {
  if (memory_ < 0) return true;
  std::string found(content.size(), '\0');
  return pread(memory_, found.data(), found.size(), static_cast<off_t>(address)) ==
             static_cast<ssize_t>(found.size()) &&
         found == content;
}

void TargetWriter::Write(Address address, const void* data, size_t bytes) {
  iovec local = {const_cast<void*>(data), bytes};
  iovec remote = {reinterpret_cast<void*>(address), bytes};
  const ssize_t n = memory_ >= 0 ? pwrite(memory_, data, bytes, static_cast<off_t>(address))
                                 : process_vm_writev(thread_, &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(bytes)) return;
  const int error = errno;
  if (n == 0) throw Failure(fmt::format("process {} has ended, or runs another program", pid_));
  if (n > 0 || error == EFAULT || error == EIO) {
    throw Failure(
        fmt::format("the memory of process {} at {:#x} cannot be written", pid_, address));
  }
  throw Failure(ExplainDenial(pid_, error, "write to"));
}

}  // namespace cli
