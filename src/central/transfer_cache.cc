// SPDX-License-Identifier: BSD-3-Clause
#include "central/transfer_cache.h"

#include <algorithm>
#include <cstring>

namespace tcmalloc {

TransferCache::TransferCache(SizeClass size_class, MetadataArena& arena)
    : batch_size_(kSizeClasses.batch_size(size_class)),
      capacity_(std::min(kMaxBatches, kMaxBytes / (batch_size_ * kSizeClasses.size(size_class)))),
      arena_(arena) {}

bool TransferCache::TryInsert(void* const* batch) {
  if (capacity_ == 0 || used_.value() == capacity_) return false;
  for (;;) {
    {
      const SpinLockHolder holder(lock_);
      const size_t used = used_.value();
      if (used == capacity_) return false;
      if (slots_ != nullptr) {
        memcpy(slots_ + used * batch_size_, batch, batch_size_ * sizeof(void*));
        used_.Set(used + 1);
        return true;
      }
    }
    if (!AllocateSlots()) return false;
  }
}

bool TransferCache::TryRemove(void** batch) {
  if (used_.value() == 0) return false;
  const SpinLockHolder holder(lock_);
  const size_t used = used_.value();
  if (used == 0) return false;
  memcpy(batch, slots_ + (used - 1) * batch_size_, batch_size_ * sizeof(void*));
  used_.Set(used - 1);
  return true;
}

bool TransferCache::AllocateSlots() {
  const size_t bytes = capacity_ * batch_size_ * sizeof(void*);
  void** const slots = static_cast<void**>(arena_.Allocate(bytes));
  if (slots == nullptr) return false;
  {
    const SpinLockHolder holder(lock_);
    if (slots_ == nullptr) {
      slots_ = slots;
      array_bytes_.Set(MetadataArena::RoundedBytes(bytes));
      return true;
    }
  }
  // Another thread was faster.
  arena_.Free(slots, bytes);
  return true;
}

}  // namespace tcmalloc
