// SPDX-License-Identifier: BSD-3-Clause
// Keeps errno for the length of a scope: what malloc and free do inside must not change it.
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
