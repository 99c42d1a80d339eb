// SPDX-License-Identifier: BSD-3-Clause
#include "cache/registry_totals.h"

namespace tcmalloc {

RegistryTotals TotalsOf(Registry& registry) {
  RegistryTotals totals;
  registry.ForEachCache([&totals](const ThreadCache& cache, Registry::Holder holder) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      totals.cached_objects[i] += cache.table().CachedObjects(static_cast<SizeClass>(i));
    }
    totals.array_bytes += cache.table().array_bytes();
    if (holder != Registry::Holder::kNobody) ++totals.caches;
  });
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    totals.cached_bytes += totals.cached_objects[i] * kSizeClasses.size(static_cast<SizeClass>(i));
  }
  return totals;
}

size_t CountCaches(Registry& registry) {
  size_t caches = 0;
  registry.ForEachCache([&caches](const ThreadCache&, Registry::Holder holder) {
    if (holder != Registry::Holder::kNobody) ++caches;
  });
  return caches;
}

bool HasSeveralCaches(Registry& registry) {
  size_t caches = 0;
  registry.ForEachCache([&caches](const ThreadCache&, Registry::Holder holder) {
    if (holder == Registry::Holder::kThread) ++caches;
  });
  return caches > 1;
}

size_t CachedObjects(Registry& registry, SizeClass c) {
  size_t objects = 0;
  registry.ForEachCache([&objects, c](const ThreadCache& cache, Registry::Holder) {
    objects += cache.table().CachedObjects(c);
  });
  return objects;
}

bool ThreadStacksHold(Registry& registry, uintptr_t address, uintptr_t limit) {
  bool found = false;
  registry.ForEachCache([&](const ThreadCache& cache, Registry::Holder holder) {
    if (holder != Registry::Holder::kThread) return;
    const uintptr_t slot = reinterpret_cast<uintptr_t>(&cache.slot());
    found |= address >= cache.first_frame() && address < slot && slot < limit;
  });
  return found;
}

}  // namespace tcmalloc
