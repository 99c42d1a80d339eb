// SPDX-License-Identifier: BSD-3-Clause
// ResidentPages: which pages of private memory the process has ever touched, so that a reader need
// not touch the others: a read puts something behind them. Reads /proc/self/pagemap, through a
// buffer on the stack.
//
// Thread safety: one thread at a time. Cost: two system calls per 2 MiB, some 10 ns per hardware
// page.
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

  // False where the system does not tell: then all pages count as touched.
  bool known() const { return fd_ >= 0; }

  // Calls f(start, end) for the parts of [start, end) that lie in pages with something behind them,
  // in memory or swapped out, in order. Neighbouring parts may come in several calls.
  template <typename F>
  void ForEachTouched(uintptr_t start, uintptr_t end, F f) const {
    uint64_t entries[kPagesAtOnce];
    while (start < end) {
      const uintptr_t first_page = start / page_size_;
      const size_t pages = (end - 1) / page_size_ - first_page + 1;
      const size_t n = Read(first_page, pages < kPagesAtOnce ? pages : kPagesAtOnce, entries);
      if (n == 0) return f(start, end);
      uintptr_t touched = 0;  // where a touched part begins, 0: not in one
      for (size_t i = 0; i < n; ++i) {
        const uintptr_t page_start = i == 0 ? start : (first_page + i) * page_size_;
        if (IsTouched(entries[i])) {
          if (touched == 0) touched = page_start;
        } else if (touched != 0) {
          f(touched, page_start);
          touched = 0;
        }
      }
      const uintptr_t looked_at = n == pages ? end : (first_page + n) * page_size_;
      if (touched != 0) f(touched, looked_at);
      start = looked_at;
    }
  }

 private:
  static constexpr size_t kPagesAtOnce = 512;

  // Present, or swapped out.
  static constexpr bool IsTouched(uint64_t entry) { return (entry >> 62) != 0; }
  // Of `n` pages from number `page` on; how many it was, 0 where the system does not tell.
  size_t Read(uintptr_t page, size_t n, uint64_t* entries) const;

  // Constant after construction.
  int fd_;
  size_t page_size_;
};

}  // namespace tcmalloc
