// SPDX-License-Identifier: BSD-3-Clause
// GuardedPages: memory between inaccessible pages, so that an access outside of it faults, and no
// other mapping is adjacent to it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace tcmalloc {

class GuardedPages {
 public:
  // `bytes`: whole pages.
  explicit GuardedPages(size_t bytes) : bytes_(bytes) {
    void* const all =
        mmap(nullptr, bytes + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = static_cast<char*>(all) + kGuard;
    if (all == MAP_FAILED || mprotect(data_, bytes, PROT_READ | PROT_WRITE) != 0) abort();
  }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;
  ~GuardedPages() { munmap(data_ - kGuard, bytes_ + 2 * kGuard); }

  char* data() const { return data_; }
  uintptr_t start() const { return reinterpret_cast<uintptr_t>(data_); }
  uintptr_t end() const { return start() + bytes_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kGuard = size_t{64} << 10;  // a multiple of any machine's page

  const size_t bytes_;
  char* data_;
};

}  // namespace tcmalloc
