// SPDX-License-Identifier: BSD-3-Clause
// LiveImage: the memory of a running process, read with process_vm_readv. The process is neither
// stopped nor changed, so parts that are read one after the other may be of different moments.
#pragma once

#include <sys/types.h>

#include <vector>

#include "image/image.h"

namespace cli {

class LiveImage : public Image {
 public:
  // Throws Failure when the process does not exist or its memory may not be read.
  explicit LiveImage(pid_t pid);
  ~LiveImage() override;

  [[nodiscard]] bool Read(Address address, void* out, size_t bytes) override;
  [[nodiscard]] size_t ReadRanges(std::span<const Range> ranges) override;
  std::vector<Mapping> Mappings() override;
  // None if the kernel has no pagemap for this process.
  std::vector<std::pair<Address, Address>> PartsInMemory(Address start, Address end) override;
  int64_t NowMs(int clock) override;

  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
  // A thread of the process that has not ended.
  const pid_t thread_;
  int memory_ = -1;              // /proc/PID/mem
  int64_t clock_offset_ms_ = 0;  // of the process's monotonic clocks, from this process's
};

}  // namespace cli
