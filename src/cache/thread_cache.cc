// SPDX-License-Identifier: BSD-3-Clause
#include "cache/thread_cache.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "cache/bin_policy.h"

namespace tcmalloc {
namespace {

constexpr SizeClass kFirstClass = static_cast<SizeClass>(1);

}  // namespace

ThreadCache::ThreadCache(ThreadSlot& slot, CentralCache& central, MetadataArena& arena)
    : slot_(&slot),
      first_frame_(reinterpret_cast<uintptr_t>(__builtin_frame_address(0))),
      central_(central),
      arena_(arena) {
  bins_.bytes_until_sample = kNoSampling;
}

// While the cache is taken by another thread, the owner finds other bins in its slot and goes
// without.

bool ThreadCache::Reserve(SizeClass c, size_t capacity) {
  const size_t i = Index(c);
  BinSlot* const old_array = arrays_[i].load(std::memory_order_relaxed);
  const size_t old_bytes = old_array == nullptr ? 0 : ArrayBytesFor(Capacity(i));
  const size_t bytes = ArrayBytesFor(capacity);
  BinSlot* array = old_array;
  if (bytes != old_bytes) {
    array = static_cast<BinSlot*>(arena_.Allocate(bytes));
    if (array == nullptr) return false;
    array[0] = 0;
  }
  if (BeginChange() != &bins_) {
    EndChange();
    if (array != old_array) arena_.Free(array, bytes);
    return false;
  }
  const size_t count = old_array == nullptr ? 0 : CountLocked(c);
  if (array != old_array && count > 0) memcpy(array + 1, old_array + 1, count * sizeof(BinSlot));
  // The mark goes behind the new capacity before the old one is overwritten by an object: what lies
  // between is stale pointers, none of which is the mark once the old mark is cleared.
  if (array == old_array) array[Capacity(i) + 1] = 0;
  std::fill(array + count + 1, array + capacity + 1, BinSlot{0});
  array[capacity + 1] = kFullMark;
  arrays_[i].store(array, std::memory_order_relaxed);
  capacity_[i].store(static_cast<uint16_t>(capacity), std::memory_order_relaxed);
  bins_.tops[i].store(array + count, std::memory_order_relaxed);
  EndChange();
  if (array != old_array && old_array != nullptr) arena_.Free(old_array, old_bytes);
  return true;
}

void* ThreadCache::Allocate(SizeClass c) {
  const size_t i = Index(c);
  // The cache may have been taken and put back between the fast path and here, or the sampling
  // counter was what ended the fast path.
  Bins* bins = slot_->BeginAccess();
  if (bins == &bins_) bins->bytes_until_sample = kNoSampling;
  void* object = bins->Pop(c);
  slot_->EndAccess();
  if (object != nullptr) return object;

  const size_t capacity = bin_policy::NextCapacity(c, Capacity(i));
  if (capacity != Capacity(i)) Reserve(c, capacity);
  void* objects[bin_policy::kMaxMove];
  const size_t n = central_.Remove(c, objects, bin_policy::RefillCount(c, Capacity(i)));
  if (n <= 1) return n == 1 ? objects[0] : nullptr;

  bins = BeginChange();
  size_t kept = 0;
  if (bins == &bins_ && Capacity(i) > 0) {
    BinSlot* top = bins->tops[i].load(std::memory_order_relaxed);
    kept = std::min(n - 1, Capacity(i) - CountLocked(c));
    // The lowest address shall come out first.
    for (size_t j = kept; j > 0; --j) *++top = reinterpret_cast<BinSlot>(objects[j]);
    bins->tops[i].store(top, std::memory_order_relaxed);
  }
  EndChange();
  if (kept + 1 < n) central_.Insert(c, objects + kept + 1, n - kept - 1);
  return objects[0];
}

void ThreadCache::Free(SizeClass c, void* object) {
  const size_t i = Index(c);
  Bins* bins = slot_->BeginAccess();
  const bool taken = bins != &bins_;
  const bool twice =
      !taken && *bins->tops[i].load(std::memory_order_relaxed) == reinterpret_cast<BinSlot>(object);
  const bool pushed = !taken && !twice && bins->Push(c, object);
  slot_->EndAccess();
  if (pushed) return;
  if (twice) ReportMisuse(Misuse::kDoubleFree, object, kSizeClasses.size(c));
  if (taken) {
    central_.Insert(c, &object, 1);
    return;
  }
  // Full. A bin that is smaller than a batch grows first; a larger one makes room, and grows as
  // well.
  const size_t old_capacity = Capacity(i);
  const size_t capacity = bin_policy::NextCapacity(c, old_capacity);
  if (capacity != old_capacity) Reserve(c, capacity);
  if (Capacity(i) == 0) {
    central_.Insert(c, &object, 1);
    return;
  }
  if (old_capacity >= std::min(kSizeClasses.batch_size(c), bin_policy::MaxCapacity(c))) {
    ReturnOldest(c, bin_policy::OverflowCount(old_capacity));
  }
  bins = slot_->BeginAccess();
  const bool fits = bins == &bins_ && bins->Push(c, object);
  slot_->EndAccess();
  if (!fits) central_.Insert(c, &object, 1);
}

size_t ThreadCache::ReturnOldest(SizeClass c, size_t n) {
  n = std::min(n, CachedObjects(c));
  if (n > bin_policy::kMaxMove) {
    if (const size_t returned = ExchangeArrayAndReturnOldest(c, n)) return returned;
  }
  void* objects[bin_policy::kMaxMove];
  const size_t taken = TakeOldest(c, objects, std::min(n, bin_policy::kMaxMove));
  if (taken > 0) central_.Insert(c, objects, taken);
  return taken;
}

size_t ThreadCache::ExchangeArrayAndReturnOldest(SizeClass c, size_t n) {
  const size_t i = Index(c);
  const size_t bytes = ArrayBytesFor(Capacity(i));
  BinSlot* const fresh = static_cast<BinSlot*>(arena_.Allocate(bytes));
  if (fresh == nullptr) return 0;
  if (BeginChange() != &bins_) {
    EndChange();
    arena_.Free(fresh, bytes);
    return 0;
  }
  BinSlot* const old = arrays_[i].load(std::memory_order_relaxed);
  const size_t count = CountLocked(c);
  n = std::min(n, count);
  const size_t kept = count - n;
  fresh[0] = 0;
  memcpy(fresh + 1, old + 1 + n, kept * sizeof(BinSlot));
  // Whatever the memory held before, nothing in front of the mark may look like it.
  std::fill(fresh + kept + 1, fresh + Capacity(i) + 1, BinSlot{0});
  fresh[Capacity(i) + 1] = kFullMark;
  arrays_[i].store(fresh, std::memory_order_relaxed);
  bins_.tops[i].store(fresh + kept, std::memory_order_relaxed);
  EndChange();
  InsertPiecewise(c, old + 1, n);
  arena_.Free(old, bytes);
  return n;
}

void ThreadCache::InsertPiecewise(SizeClass c, BinSlot* slots, size_t n) {
  while (n > 0) {
    const size_t piece = std::min(n, bin_policy::kMaxMove);
    central_.Insert(c, reinterpret_cast<void**>(slots), piece);
    slots += piece;
    n -= piece;
  }
}

size_t ThreadCache::TakeOldest(SizeClass c, void** objects, size_t n) {
  const size_t i = Index(c);
  size_t taken = 0;
  if (BeginChange() == &bins_ && arrays_[i].load(std::memory_order_relaxed) != nullptr) {
    BinSlot* const array = arrays_[i].load(std::memory_order_relaxed);
    const size_t count = CountLocked(c);
    taken = std::min(n, count);
    memcpy(objects, array + 1, taken * sizeof(void*));
    memmove(array + 1, array + 1 + taken, (count - taken) * sizeof(BinSlot));
    bins_.tops[i].store(array + count - taken, std::memory_order_relaxed);
  }
  EndChange();
  return taken;
}

size_t ThreadCache::Flush() {
  size_t bytes = 0;
  for (size_t i = Index(kFirstClass); i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    while (const size_t n = ReturnOldest(c, bin_policy::kMaxObjects)) {
      bytes += n * kSizeClasses.size(c);
    }
  }
  return bytes;
}

void ThreadCache::FlushAndFreeArrays() {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    BinSlot* const array = arrays_[i].load(std::memory_order_relaxed);
    if (array == nullptr) continue;
    const SizeClass c = static_cast<SizeClass>(i);
    const size_t count = CountLocked(c);
    bins_.tops[i].store(const_cast<BinSlot*>(kNoBinArray), std::memory_order_relaxed);
    arrays_[i].store(nullptr, std::memory_order_relaxed);
    InsertPiecewise(c, array + 1, count);
    arena_.Free(array, ArrayBytesFor(Capacity(i)));
    capacity_[i].store(0, std::memory_order_relaxed);
  }
}

size_t ThreadCache::CachedObjects(SizeClass c) const {
  const BinSlot* const array = arrays_[Index(c)].load(std::memory_order_relaxed);
  const BinSlot* const top = bins_.tops[Index(c)].load(std::memory_order_relaxed);
  if (array == nullptr) return 0;
  // The array may have been exchanged between the two loads.
  const size_t count =
      (reinterpret_cast<uintptr_t>(top) - reinterpret_cast<uintptr_t>(array)) / sizeof(BinSlot);
  return count <= bin_policy::MaxCapacity(c) ? count : 0;
}

size_t ThreadCache::CachedBytes() const {
  size_t bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    bytes += CachedObjects(c) * kSizeClasses.size(c);
  }
  return bytes;
}

size_t ThreadCache::ArrayBytes() const {
  size_t bytes = 0;
  for (size_t i = Index(kFirstClass); i < kNumSizeClasses; ++i) {
    if (arrays_[i].load(std::memory_order_relaxed) != nullptr) bytes += ArrayBytesFor(Capacity(i));
  }
  return bytes;
}

void ThreadCache::CheckInvariants() const {
  for (size_t i = 0; i < kNumSizeClasses; ++i) {
    const BinSlot* const array = arrays_[i].load(std::memory_order_relaxed);
    const BinSlot* const top = bins_.tops[i].load(std::memory_order_relaxed);
    if (array == nullptr) {
      TC_CHECK(top == kNoBinArray && Capacity(i) == 0);  // B1
      continue;
    }
    TC_CHECK(array[0] == 0 && array[Capacity(i) + 1] == kFullMark);                          // B1
    TC_CHECK(top >= array && top <= array + Capacity(i));                                    // B1
    for (const BinSlot* slot = array + 1; slot <= top; ++slot) TC_CHECK(*slot > kFullMark);  // B2
  }
}

}  // namespace tcmalloc
