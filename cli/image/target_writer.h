// SPDX-License-Identifier: BSD-3-Clause
// TargetWriter: writes into the memory of a running process. Beside this, only Sleeper and
// ForkedCopy change another process. All need the right to trace it. Nothing is injected: the
// process runs its own code throughout.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>

#include "image/image.h"

namespace cli {

// The memory is that which the process has when the writer is made: it never writes into another
// program that the process starts with exec.
class TargetWriter {
 public:
  // Throws Failure.
  explicit TargetWriter(pid_t pid);
  ~TargetWriter();
  TargetWriter(const TargetWriter&) = delete;
  TargetWriter& operator=(const TargetWriter&) = delete;

  // Locks the process against other writers, also in other instances of this program. False when
  // another one has the lock. The lock ends with this object, or with this program.
  bool TryLock();
  // True if the memory at that address begins with `content`.
  bool Has(Address address, std::string_view content) const;
  // Writes all bytes, in one call; a reader in the process may see a part of them first. Throws
  // Failure.
  void Write(Address address, const void* data, size_t bytes);
  template <typename T>
  void WriteValue(Address address, const T& value) {
    Write(address, &value, sizeof(T));
  }

 private:
  const pid_t pid_;
  // A thread of the process that has not ended.
  const pid_t thread_;
  int memory_ = -1;  // its file /proc/PID/mem
};

}  // namespace cli
