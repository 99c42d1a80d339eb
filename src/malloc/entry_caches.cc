// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h.
#include <errno.h>

#include <algorithm>
#include <cstdint>

#include "base/compiler.h"
#include "page/release_policy.h"
#include "runtime/background_thread.h"
#include "runtime/current_thread.h"
#include "runtime/heap.h"
#include "runtime/trim.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

Heap& ExistingHeap() {
  EnsureHeap();
  return GlobalHeap();
}

// errno at the end is what it was at the beginning: giving memory back makes system calls.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int saved_;
};

}  // namespace
}  // namespace tcmalloc

using tcmalloc::current_slot;
using tcmalloc::KeepErrno;
using tcmalloc::Length;
using tcmalloc::ReleasePolicy;

extern "C" {

TC_EXPORT size_t tcmalloc_flush_thread_caches() noexcept {
  const KeepErrno keep;
  return tcmalloc::FlushThreadCaches(tcmalloc::ExistingHeap());
}

TC_EXPORT size_t tcmalloc_flush_central_caches() noexcept {
  const KeepErrno keep;
  return tcmalloc::FlushCentralCaches(tcmalloc::ExistingHeap());
}

TC_EXPORT size_t tcmalloc_flush_this_thread_cache() noexcept {
  if (current_slot.cache == nullptr) return 0;
  const KeepErrno keep;
  return tcmalloc::GlobalHeap().registry.FlushAndYieldLimit(current_slot.cache);
}

TC_EXPORT void tcmalloc_mark_thread_idle() noexcept { tcmalloc_flush_this_thread_cache(); }

TC_EXPORT void tcmalloc_mark_thread_temporarily_idle() noexcept {
  if (current_slot.cache == nullptr) return;
  const KeepErrno keep;
  current_slot.cache->Flush();
}

TC_EXPORT void tcmalloc_mark_thread_busy() noexcept { tcmalloc::CurrentCache(); }

TC_EXPORT size_t tcmalloc_release_free_memory() noexcept {
  return tcmalloc_release_to_system(SIZE_MAX);
}

TC_EXPORT size_t tcmalloc_release_to_system(size_t bytes) noexcept {
  const KeepErrno keep;
  const Length n = Length::ForBytes(std::min(bytes, SIZE_MAX / 2));
  return tcmalloc::ExistingHeap().page_heap.ReleaseAtLeast(n).bytes();
}

TC_EXPORT void tcmalloc_set_memory_release_rate(double rate) noexcept {
  // Not a number counts as 0.
  rate = rate > 0 ? std::min(rate, ReleasePolicy::kMaxRate) : 0;
  tcmalloc::ExistingHeap().page_heap.SetReleaseRate(rate);
}

TC_EXPORT double tcmalloc_get_memory_release_rate() noexcept {
  return tcmalloc::ExistingHeap().page_heap.release_rate();
}

// Not noexcept: the thread may be cancelled.
TC_EXPORT void tcmalloc_process_background_actions() {
  tcmalloc::ProcessBackgroundActions(tcmalloc::ExistingHeap());
}

}  // extern "C"
