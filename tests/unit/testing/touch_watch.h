// SPDX-License-Identifier: BSD-3-Clause
// TouchWatch: records which pages of some memory are touched, and the address of each first touch.
// A watched page is protected until its first touch, so no touch is missed. Only one may exist at a
// time; it records touches of this process.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace tcmalloc {

class TouchWatch {
 public:
  enum class What { kAnything, kStores };

  explicit TouchWatch(What what) : protection_(what == What::kStores ? PROT_READ : PROT_NONE) {
    if (active_ != nullptr) abort();
    active_ = this;
    struct sigaction action = {};
    action.sa_sigaction = &Handle;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(SIGSEGV, &action, &previous_) != 0) abort();
  }
  TouchWatch(const TouchWatch&) = delete;
  TouchWatch& operator=(const TouchWatch&) = delete;
  ~TouchWatch() {
    for (const Range& range : ranges_) Protect(range.start, range.bytes, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &previous_, nullptr);
    active_ = nullptr;
  }

  // Requires: whole pages that are readable and writable until now.
  void Watch(const void* start, size_t bytes) {
    ranges_.push_back({reinterpret_cast<uintptr_t>(start), bytes});
    // The handler must not allocate.
    touches_.reserve(touches_.capacity() + bytes / PageSize());
    Protect(ranges_.back().start, bytes, protection_);
  }

  // The addresses of the first touches of pages, in their order.
  const std::vector<uintptr_t>& touches() const { return touches_; }

  static size_t PageSize() {
    static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
  }

 private:
  struct Range {
    uintptr_t start;
    size_t bytes;
  };

  static void Protect(uintptr_t start, size_t bytes, int protection) {
    if (mprotect(reinterpret_cast<void*>(start), bytes, protection) != 0) abort();
  }

  static void Handle(int, siginfo_t* info, void*) {
    const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
    for (const Range& range : active_->ranges_) {
      if (address - range.start >= range.bytes) continue;
      active_->touches_.push_back(address);
      // The access is repeated, and succeeds.
      Protect(address / PageSize() * PageSize(), PageSize(), PROT_READ | PROT_WRITE);
      return;
    }
    // The page is not watched: the fault happens again, and the previous handler gets it.
    sigaction(SIGSEGV, &active_->previous_, nullptr);
  }

  static inline TouchWatch* active_ = nullptr;
  const int protection_;
  struct sigaction previous_ = {};
  std::vector<Range> ranges_;
  std::vector<uintptr_t> touches_;
};

}  // namespace tcmalloc
