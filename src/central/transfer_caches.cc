// SPDX-License-Identifier: BSD-3-Clause
#include "central/transfer_caches.h"

#include "base/check.h"
#include "base/tuning.h"

namespace tcmalloc {

bool TransferCaches::TryInsert(SizeClass c, void* const* batch) {
  TransferCache& cache = caches_[c];
  if (cache.TryInsert(batch)) return true;
  return cache.WantsSlot() && MakeRoom(c) && cache.TryInsert(batch);
}

bool TransferCaches::MakeRoom(SizeClass c) {
  const size_t needed = caches_[c].batch_bytes();
  for (size_t asked = 0;; ++asked) {
    const size_t unclaimed = budget_.unclaimed();
    if (unclaimed >= needed) return true;
    if (asked == kTuning.transfer.classes_asked) return false;
    const size_t turn = next_asked_.fetch_add(1, std::memory_order_relaxed);
    caches_[static_cast<SizeClass>(1 + turn % (kNumSizeClasses - 1))].GiveUnusedSlots(needed -
                                                                                      unclaimed);
  }
}

void TransferCaches::CheckInvariants() {
  size_t bytes = budget_.unclaimed();
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    TransferCache& cache = caches_[static_cast<SizeClass>(i)];
    bytes += cache.slots() * cache.batch_bytes();
  }
  TC_CHECK(bytes == budget_.total());  // T3
}

}  // namespace tcmalloc
