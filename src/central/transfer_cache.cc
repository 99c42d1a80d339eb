// SPDX-License-Identifier: BSD-3-Clause
#include "central/transfer_cache.h"

#include <cstring>

#include "base/check.h"
#include "central/transfer_policy.h"

namespace tcmalloc {

TransferCache::TransferCache(SizeClass size_class, MetadataArena& arena, TransferBudget& budget)
    : batch_size_(static_cast<uint16_t>(kSizeClasses.batch_size(size_class))),
      max_slots_(static_cast<uint16_t>(transfer_policy::MaxSlots(size_class))),
      batch_bytes_(static_cast<uint32_t>(transfer_policy::BatchBytes(size_class))),
      arena_(arena),
      budget_(budget) {}

bool TransferCache::TryInsert(void* const* batch) {
  if (HasMost()) return false;
  for (;;) {
    {
      const SpinLockHolder holder(lock_);
      const size_t used = used_.value();
      const size_t slots = slots_.value();
      if (used == slots) {
        if (!transfer_policy::WantsSlot(used, slots, max_slots_)) return false;
        if (!budget_.TryClaim(batch_bytes_)) return false;
        slots_.Set(slots + 1);
      }
      if (batches_ != nullptr) {
        memcpy(batches_ + used * batch_size_, batch, batch_size_ * sizeof(void*));
        used_.Set(used + 1);
        return true;
      }
    }
    if (!AllocateArray()) return false;
  }
}

bool TransferCache::TryRemove(void** batch) {
  if (used_.value() == 0) return false;
  const SpinLockHolder holder(lock_);
  const size_t used = used_.value();
  if (used == 0) return false;
  memcpy(batch, batches_ + (used - 1) * batch_size_, batch_size_ * sizeof(void*));
  used_.Set(used - 1);
  return true;
}

bool TransferCache::WantsSlot() const {
  return transfer_policy::WantsSlot(used_.value(), slots_.value(), max_slots_);
}

void TransferCache::GiveUnusedSlots(size_t missing_bytes) {
  if (used_.value() == slots_.value()) return;
  const SpinLockHolder holder(lock_);
  const size_t slots = slots_.value();
  const size_t given =
      transfer_policy::SlotsToGive(used_.value(), slots, batch_bytes_, missing_bytes);
  slots_.Set(slots - given);
  budget_.Return(given * batch_bytes_);
}

bool TransferCache::AllocateArray() {
  const size_t bytes = size_t{max_slots_} * batch_size_ * sizeof(void*);
  void** const array = static_cast<void**>(arena_.Allocate(bytes));
  if (array == nullptr) return false;
  {
    const SpinLockHolder holder(lock_);
    if (batches_ == nullptr) {
      batches_ = array;
      array_bytes_.Set(MetadataArena::RoundedBytes(bytes));
      return true;
    }
  }
  // Another thread was faster.
  arena_.Free(array, bytes);
  return true;
}

void TransferCache::CheckLocked() const {
  TC_CHECK(used_.value() <= slots_.value() && slots_.value() <= max_slots_);  // T1
  TC_CHECK(used_.value() == 0 || batches_ != nullptr);
}

}  // namespace tcmalloc
