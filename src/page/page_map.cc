// SPDX-License-Identifier: BSD-3-Clause
#include "page/page_map.h"

#include "base/check.h"

namespace tcmalloc {

bool PageMap::EnsureLeaves(PageId first, Length n, VirtualMemory& vm) {
  TC_ASSERT(n > Length(0));
  const size_t first_leaf = first.index() >> kLeafBits;
  const size_t last_leaf = (first + n - Length(1)).index() >> kLeafBits;
  if (last_leaf >= kRootEntries) return false;
  for (size_t i = first_leaf; i <= last_leaf; ++i) {
    if (root_[i].load(std::memory_order_acquire) != 0) continue;
    void* const memory = vm.Map(leaf_bytes(), kPageSize).start;
    if (memory == nullptr) return false;
    uintptr_t expected = 0;
    const uintptr_t distance =
        reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(empty_leaf_);
    if (root_[i].compare_exchange_strong(expected, distance, std::memory_order_acq_rel)) {
      leaves_.fetch_add(1, std::memory_order_relaxed);
    } else {
      // Another thread was faster.
      static_cast<void>(vm.Unmap(memory, leaf_bytes()));
    }
  }
  return true;
}

}  // namespace tcmalloc
