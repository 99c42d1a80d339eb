// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h that flush caches and release memory. Their contract
// is in that header. They keep errno.
#include <algorithm>
#include <cstdint>

#include "base/compiler.h"
#include "base/tuning.h"
#include "os/errno_keeper.h"
#include "page_heap/release_policy.h"
#include "process/current_thread.h"
#include "process/heap.h"
#include "process/idle_release.h"
#include "process/trim.h"
#include "tcmalloc/tcmalloc.h"

using tcmalloc::current_slot;
using tcmalloc::ErrnoKeeper;
using tcmalloc::Length;
using tcmalloc::ReleasePolicy;

extern "C" {

TC_EXPORT size_t tcmalloc_flush_thread_caches() noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::FlushThreadCaches(tcmalloc::ExistingHeap());
}

TC_EXPORT size_t tcmalloc_flush_central_caches() noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::FlushCentralCaches(tcmalloc::ExistingHeap());
}

TC_EXPORT size_t tcmalloc_flush_this_thread_cache() noexcept {
  if (current_slot.cache == nullptr) return 0;
  const ErrnoKeeper keeper;
  return tcmalloc::GlobalHeap().registry.FlushAndYieldLimit(current_slot.cache);
}

TC_EXPORT void tcmalloc_mark_thread_idle() noexcept { tcmalloc_flush_this_thread_cache(); }

TC_EXPORT void tcmalloc_mark_thread_temporarily_idle() noexcept {
  if (current_slot.cache == nullptr) return;
  const ErrnoKeeper keeper;
  current_slot.cache->Flush();
}

TC_EXPORT void tcmalloc_mark_thread_busy() noexcept { tcmalloc::CurrentCache(); }

TC_EXPORT size_t tcmalloc_release_free_memory() noexcept {
  return tcmalloc_release_to_system(SIZE_MAX);
}

TC_EXPORT size_t tcmalloc_release_to_system(size_t bytes) noexcept {
  const ErrnoKeeper keeper;
  const Length n = Length::ForBytes(std::min(bytes, SIZE_MAX / 2));
  return tcmalloc::ExistingHeap().page_heap.ReleaseAtLeast(n).bytes();
}

TC_EXPORT void tcmalloc_set_memory_release_rate(double rate) noexcept {
  // The comparison is false for 0.0 / 0, which is not a number; it counts as 0.
  rate = rate > 0 ? std::min(rate, tcmalloc::kTuning.release.max_rate) : 0;
  tcmalloc::ExistingHeap().page_heap.governor()->SetReleaseRate(rate);
}

TC_EXPORT double tcmalloc_get_memory_release_rate() noexcept {
  return tcmalloc::ExistingHeap().page_heap.governor()->release_rate();
}

// Not noexcept: cancelling the thread unwinds through this function.
TC_EXPORT void tcmalloc_process_background_actions() {
  tcmalloc::ProcessBackgroundActions(tcmalloc::ExistingHeap());
}

}  // extern "C"
