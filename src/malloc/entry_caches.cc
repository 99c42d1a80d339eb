// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h.
#include "base/compiler.h"
#include "os/errno_keeper.h"
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

}  // namespace
}  // namespace tcmalloc

using tcmalloc::current_slot;
using tcmalloc::ErrnoKeeper;

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

}  // extern "C"
