// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/registry_totals.h"

namespace tcmalloc {

RegistryTotals TotalsOf(const Registry& registry) {
  RegistryTotals totals;
  registry.all().ForEachTable([&totals](const BinTable& table) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      totals.cached_objects[i] += table.CachedObjects(static_cast<SizeClass>(i));
    }
    totals.array_bytes += table.array_bytes();
  });
  totals.caches = HeldCaches(registry);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    totals.cached_bytes += totals.cached_objects[i] * kSizeClasses.size(static_cast<SizeClass>(i));
  }
  return totals;
}

size_t CachedObjects(const Registry& registry, SizeClass c) {
  size_t objects = 0;
  registry.all().ForEachTable(
      [&objects, c](const BinTable& table) { objects += table.CachedObjects(c); });
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
