// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/page_map.h"

#include "base/config.h"

namespace tcmalloc {

bool PageMap::EnsureLeaves(PageId first, Length n, VirtualMemory& vm) {
  TC_ASSERT(n > Length(0));
  const size_t first_leaf = first.index() >> kLeafBits;
  const size_t last_leaf = (first + n - Length(1)).index() >> kLeafBits;
  if (last_leaf >= kRootEntries) return false;
  for (size_t i = first_leaf; i <= last_leaf; ++i) {
    if (root_[i].load(std::memory_order_acquire) != 0) continue;
    std::atomic<uintptr_t>& first_together = root_[i - i % kLeavesAtOnce];
    uintptr_t distance = first_together.load(std::memory_order_acquire);
    if (distance == 0) {
      void* const memory = vm.MapAt(WantedAddress(i), leaf_bytes()).start;
      if (memory == nullptr) return false;
      // Where the OS makes hugepages unasked, one here would be most of a small process's memory.
      // The heap may not know the OS's setting yet, so it always gives this advice.
      vm.AdviseHugepages(memory, leaf_bytes(), false);
      const uintptr_t fresh = DistanceOf(memory);
      if (first_together.compare_exchange_strong(distance, fresh, std::memory_order_acq_rel)) {
        leaf_mappings_.fetch_add(1, std::memory_order_relaxed);
        if constexpr (kLeavesAtOnce > 1) distance = fresh;
      } else {
        // Another thread was faster: its mapping is in `distance`.
        static_cast<void>(vm.Unmap(memory, leaf_bytes()));
      }
    }
    if constexpr (kLeavesAtOnce > 1) {
      static_assert(sizeof(Leaf) % sizeof(ShortClass) == 0);
      root_[i].store(distance + i % kLeavesAtOnce * (sizeof(Leaf) / sizeof(ShortClass)),
                     std::memory_order_release);
    }
  }
  return true;
}

}  // namespace tcmalloc
