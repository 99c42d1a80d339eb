// SPDX-License-Identifier: BSD-3-Clause
// Sums over all thread caches of a registry, and a test whether an address is on a stack of their
// threads.
//
// Thread safety: any. Figures are racy while the caches' owners run. Cost: TotalsOf and
// CachedObjects walk over the bins of all caches without a lock (see all_caches.h).
// ThreadStacksHold walks over all caches with the registry's lock held and reads a cache line of
// each. Only a free of an invalid pointer calls it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/size_classes.h"
#include "thread_cache/registry.h"

namespace tcmalloc {

struct RegistryTotals {
  std::array<size_t, kNumSizeClasses> cached_objects = {};
  size_t cached_bytes = 0;  // of these objects
  size_t array_bytes = 0;
  size_t caches = 0;  // of threads, also of threads in the parent process
};

RegistryTotals TotalsOf(const Registry& registry);

// RegistryTotals::caches alone. Cost: two loads.
inline size_t HeldCaches(const Registry& registry) {
  return registry.all().of_threads.value() + registry.all().orphans.value();
}

// Objects of class `c` in all caches.
size_t CachedObjects(const Registry& registry, SizeClass c);

// True if `address` lies between the slot of a registered thread and the frame in which that thread
// got its cache. The slot must be below `limit`. A thread whose stack is above its slot (the main
// thread) does not count.
bool ThreadStacksHold(Registry& registry, uintptr_t address, uintptr_t limit);

}  // namespace tcmalloc
