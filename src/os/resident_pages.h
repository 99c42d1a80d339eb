// SPDX-License-Identifier: BSD-3-Clause
// ResidentPages: which pages of private memory the process has ever touched, so that a reader need
// not touch the others: a read puts something behind them. Reads /proc/self/pagemap, through a
// buffer on the stack.
//
// Thread safety: any. Cost: a system call per 2 MiB, some 10 ns per hardware page.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class ResidentPages {
 public:
  ResidentPages();
  ~ResidentPages();
  ResidentPages(const ResidentPages&) = delete;
  ResidentPages& operator=(const ResidentPages&) = delete;

  // False where the system does not tell; then ForEachTouched takes all pages for touched.
  bool known() const { return fd_ >= 0; }

  // Calls f(start, end) for the parts of [start, end) that lie in pages with something behind them,
  // in memory or swapped out, in order.
  template <typename F>
  void ForEachTouched(uintptr_t start, uintptr_t end, F f) const {
    while (start < end) {
      uintptr_t next = end;
      const uintptr_t touched = FirstTouched(start, end, &next);
      if (touched < next) f(touched, next);
      start = next;
    }
  }

 private:
  static constexpr size_t kPagesAtOnce = 512;

  // Where the first touched part of [start, end) begins, and in `*next` where it ends, as far as
  // was looked; an empty part means that there is none in front of `*next`.
  uintptr_t FirstTouched(uintptr_t start, uintptr_t end, uintptr_t* next) const;

  // Constant after construction.
  int fd_;
  size_t page_size_;
};

}  // namespace tcmalloc
