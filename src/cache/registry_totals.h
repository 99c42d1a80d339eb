// SPDX-License-Identifier: BSD-3-Clause
// What all thread caches of a registry hold together, and where their threads' stacks are.
//
// Thread safety: any. Figures are racy while the caches' owners run. Cost: a walk over all caches
// with the registry's lock held; TotalsOf and CachedObjects also walk over their bins.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/size_classes.h"
#include "cache/registry.h"

namespace tcmalloc {

struct RegistryTotals {
  std::array<size_t, kNumSizeClasses> cached_objects = {};
  size_t cached_bytes = 0;  // of these objects
  size_t array_bytes = 0;
  size_t caches = 0;  // that threads have, or had in the parent process
};

RegistryTotals TotalsOf(Registry& registry);

// RegistryTotals::caches alone.
size_t CountCaches(Registry& registry);

// Two threads or more have a cache.
bool HasSeveralCaches(Registry& registry);

// Objects of class `c` in all caches.
size_t CachedObjects(Registry& registry, SizeClass c);

// `address` lies between some registered thread's slot, which is below `limit`, and the frame in
// which the thread got its cache. The slot of a thread whose stack is above it (the main thread)
// holds nothing.
bool ThreadStacksHold(Registry& registry, uintptr_t address, uintptr_t limit);

}  // namespace tcmalloc
