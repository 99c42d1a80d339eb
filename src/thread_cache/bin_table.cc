// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/bin_table.h"

#include <algorithm>
#include <cstring>

#include "base/config.h"
#include "thread_cache/bin_policy.h"

namespace tcmalloc {

constinit const BinSlot kNoBinArray[2] = {0, kFullMark};

constinit const Bins kEmptyBins;

namespace {

// Copies `n` pointers; the ranges may overlap. The C library's memmove copies with the widest
// registers. For memcpy of a bounded length g++ emits `rep movs`, which is slow to start.
void CopySlots(void* to, const void* from, size_t n) { memmove(to, from, n * sizeof(BinSlot)); }

size_t ClaimOf(const BinArray& array) {
  return array.bytes() + array.limit * kSizeClasses.size(array.size_class);
}

}  // namespace

void BinTable::Install(size_t i, BinArray* fresh) {
  const BinArray* const old = Array(i);
  size_t count = 0;
  if (old != nullptr) {
    count = Count(i);
    CopySlots(fresh->slots() + 1, old->slots() + 1, count);
    fresh->overages = old->overages;
    fresh->fetched = old->fetched;
    array_bytes_.Subtract(old->bytes());
    claimed_bytes_.Subtract(ClaimOf(*old));
  }
  array_bytes_.Add(fresh->bytes());
  claimed_bytes_.Add(ClaimOf(*fresh));
  arrays_[i].store(fresh, std::memory_order_relaxed);
  SetTop(i, count);
}

void BinTable::SetLimit(size_t i, size_t limit) {
  BinArray* const array = Array(i);
  TC_ASSERT(Count(i) <= limit && limit <= array->capacity);
  array->slots()[array->limit + 1] = 0;
  array->slots()[limit + 1] = kFullMark;
  claimed_bytes_.Subtract(ClaimOf(*array));
  array->limit = static_cast<uint16_t>(limit);
  claimed_bytes_.Add(ClaimOf(*array));
}

void BinTable::Remove(size_t i) {
  const BinArray* const array = Array(i);
  claimed_bytes_.Subtract(ClaimOf(*array));
  array_bytes_.Subtract(array->bytes());
  uses_without_bin_[i] = 0;
  bins_.tops[i].store(const_cast<BinSlot*>(kNoBinArray), std::memory_order_relaxed);
  arrays_[i].store(nullptr, std::memory_order_relaxed);
}

void BinTable::Detach(BinArraysInFlight* arrays) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    BinArray* const array = Array(i);
    if (array == nullptr) continue;
    array->count = static_cast<uint16_t>(Count(i));
    Remove(i);
    array->slots()[0] = reinterpret_cast<BinSlot>(arrays->first());
    arrays->set_first(array);
  }
}

void BinTable::Leak() {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    bins_.tops[i].store(const_cast<BinSlot*>(kNoBinArray), std::memory_order_relaxed);
    arrays_[i].store(nullptr, std::memory_order_relaxed);
  }
  claimed_bytes_.Set(0);
  array_bytes_.Set(0);
}

size_t BinTable::PushAll(size_t i, void* const* objects, size_t n) {
  const size_t kept = std::min<size_t>(n, Array(i)->limit - Count(i));
  BinSlot* const top = bins_.tops[i].load(std::memory_order_relaxed);
  CopySlots(top + 1, objects + n - kept, kept);
  bins_.tops[i].store(top + kept, std::memory_order_relaxed);
  return n - kept;
}

size_t BinTable::TakeOldest(size_t i, void** objects, size_t n) {
  BinArray* const array = Array(i);
  if (array == nullptr) return 0;
  const size_t count = Count(i);
  n = std::min(n, count);
  const size_t taken = std::min(n, kMaxMoveObjects);
  // Takes the last of the `n`, so that only objects that stay move down, not those that leave next.
  BinSlot* const first = array->slots() + 1 + n - taken;
  CopySlots(objects, first, taken);
  CopySlots(first, first + taken, count - n);
  SetTop(i, count - taken);
  return taken;
}

size_t BinTable::CachedObjects(SizeClass c) const {
  const size_t i = Index(c);
  const BinArray* const array = Array(i);
  const BinSlot* const top = bins_.tops[i].load(std::memory_order_relaxed);
  if (array == nullptr) return 0;
  // The array may have been replaced between the two loads.
  const size_t slot =
      (reinterpret_cast<uintptr_t>(top) - reinterpret_cast<uintptr_t>(array->slots())) /
      sizeof(BinSlot);
  return slot > bin_policy::MaxLimit(c) ? 0 : slot;
}

size_t BinTable::CachedBytes() const {
  size_t bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    bytes += CachedObjects(c) * kSizeClasses.size(c);
  }
  return bytes;
}

void BinTable::CheckInvariants() const {
  size_t claimed = 0;
  size_t array_bytes = 0;
  for (size_t i = 0; i < kNumSizeClasses; ++i) {
    const BinArray* const array = Array(i);
    if (array == nullptr) {
      TC_CHECK(bins_.tops[i].load(std::memory_order_relaxed) == kNoBinArray);  // B1
      continue;
    }
    const BinSlot* const slots = array->slots();
    TC_CHECK(array->limit <= array->capacity && array->size_class == static_cast<SizeClass>(i));
    TC_CHECK(slots[0] == 0 && Count(i) <= array->limit);  // B1
    for (size_t slot = 1; slot <= array->capacity + size_t{1}; ++slot) {
      TC_CHECK((slots[slot] == kFullMark) == (slot == array->limit + size_t{1}));  // B1
      if (slot <= Count(i)) TC_CHECK(slots[slot] != 0);                            // B2
    }
    claimed += ClaimOf(*array);
    array_bytes += array->bytes();
  }
  TC_CHECK(claimed == claimed_bytes() && array_bytes == array_bytes_.value());  // B3
}

}  // namespace tcmalloc
