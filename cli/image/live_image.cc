// SPDX-License-Identifier: BSD-3-Clause
#include "image/live_image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "image/process.h"

namespace cli {

LiveImage::LiveImage(pid_t pid) : pid_(pid) {
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value()) throw Failure(fmt::format("there is no process {}", pid));
  if (info->is_zombie()) throw Failure(ExplainDenial(pid, 0));
  memory_ = open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (memory_ < 0) throw Failure(ExplainDenial(pid, errno));
}

LiveImage::~LiveImage() { close(memory_); }

bool LiveImage::Read(Address address, void* out, size_t bytes) {
  char* next = static_cast<char*>(out);
  // A read may end at the border of two mappings.
  while (bytes > 0) {
    iovec local = {next, bytes};
    iovec remote = {reinterpret_cast<void*>(address), bytes};
    ssize_t n = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    // Some sandboxes forbid the call but not the file.
    if (n <= 0 && errno != EFAULT) {
      n = pread(memory_, next, bytes, static_cast<off_t>(address));
    }
    if (n <= 0) return false;
    next += n;
    address += static_cast<size_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::vector<Mapping> LiveImage::Mappings() { return ReadMappings(pid_); }

int64_t LiveImage::NowMs(int clock) {
  timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace cli
