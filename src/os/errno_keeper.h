// SPDX-License-Identifier: BSD-3-Clause
// Restores errno at the end of a scope: system calls inside malloc and free must not change it.
#pragma once

#include <errno.h>

namespace tcmalloc {

class ErrnoKeeper {
 public:
  ErrnoKeeper() : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  const int saved_;
};

}  // namespace tcmalloc
