// SPDX-License-Identifier: BSD-3-Clause
#include "cache/thread_cache.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/tuning.h"
#include "cache/bin_policy.h"
#include "cache/registry.h"

namespace tcmalloc {
namespace {

// In pieces, so that the central lock is never held for long.
void InsertPiecewise(CentralCache& central, SizeClass c, BinSlot* slots, size_t n,
                     Origin origin = Origin::kAny) {
  while (n > 0) {
    const size_t piece = std::min(n, kTuning.bins.max_move_objects);
    central.Insert(c, reinterpret_cast<void**>(slots), piece, origin);
    slots += piece;
    n -= piece;
  }
}

}  // namespace

ThreadCache::ThreadCache(ThreadSlot& slot, CentralCache& central, MetadataArena& arena,
                         Registry& registry)
    : slot_(&slot),
      first_frame_(reinterpret_cast<uintptr_t>(__builtin_frame_address(0))),
      central_(central),
      arena_(arena),
      registry_(registry) {
  countdown_.Reset(bins_.bytes_until_sample);
}

void ThreadCache::HandTo(ThreadSlot& slot) {
  slot_ = &slot;
  first_frame_ = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  record = RegistryRecord();
  flush_requested_.store(false, std::memory_order_relaxed);
  withheld_.store(false, std::memory_order_relaxed);
  countdown_.Reset(bins_.bytes_until_sample);
}

// Slow paths. While another thread has the cache, the owner is served by the central cache.

void* ThreadCache::Allocate(SizeClass c) {
  if (flush_requested_.load(std::memory_order_relaxed)) FlushAsAsked();
  const size_t i = Index(c);
  size_t limit = 0;
  bool mine;
  bool wants_bin = true;
  {
    const Section section(*this);
    mine = static_cast<bool>(section);
    if (mine) {
      LowerProbeInSection(i);
      // The cache may have been taken and put back between the fast path and here, or the probe or
      // the countdown was what ended the fast path.
      if (void* const object = bins_.Pop(c)) return object;
      if (BinArray* const array = Array(i)) {
        limit = array->limit;
        array->touched = true;
      } else if (uses_without_bin_[i] < bin_policy::AllocationsWithoutBin(c)) {
        ++uses_without_bin_[i];
        wants_bin = false;
      }
    }
  }
  if (!mine) registry_.OfferBack(this);
  if (!mine || !wants_bin) {
    void* object;
    return central_.Remove(c, &object, 1) == 1 ? object : nullptr;
  }
  const size_t next = bin_policy::LimitAfterUnderflow(c, limit);
  if (next != limit && SetLimit(c, limit, next)) limit = next;
  return Refill(c, bin_policy::RefillCount(c, limit));
}

void* ThreadCache::Refill(SizeClass c, size_t n) {
  void* objects[kTuning.bins.max_move_objects];
  n = central_.Remove(c, objects, n);
  if (n == 0) return nullptr;
  traffic_bytes_ += n * kSizeClasses.size(c);
  const size_t left = PushFetched(c, objects + 1, n - 1);
  if (left > 0) central_.Insert(c, objects + n - left, left);
  return objects[0];
}

void ThreadCache::Free(SizeClass c, void* object) {
  if (flush_requested_.load(std::memory_order_relaxed)) FlushAsAsked();
  const size_t i = Index(c);
  bool mine;
  bool twice = false;
  bool wants_bin = false;
  size_t limit = 0;
  bin_policy::Overflow overflow = {};
  {
    const Section section(*this);
    mine = static_cast<bool>(section);
    if (mine) {
      twice = IsNewestInSection(i, object);
      if (!twice && bins_.Push(c, object)) return;
      if (BinArray* const array = Array(i)) {
        limit = array->limit;
        overflow = bin_policy::DecideOverflow(c, limit, array->overages);
        array->overages = overflow.overages & 0x7f;
        array->touched = true;
      } else if (uses_without_bin_[i] < bin_policy::FreesWithoutBin(c)) {
        ++uses_without_bin_[i];
      } else {
        wants_bin = true;
      }
    }
  }
  if (twice) ReportMisuse(Misuse::kDoubleFree, object, kSizeClasses.size(c));
  if (!mine) {
    registry_.OfferBack(this);
    central_.Insert(c, &object, 1);
    return;
  }
  if (limit == 0) {
    // The object may be one of those that went to the central cache just now, which then says so.
    // Without the room for a bin, too, the central cache is where the object goes.
    const bool keep = wants_bin && central_.IsOut(c, object) &&
                      SetLimit(c, 0, bin_policy::InitialLimit(c)) && PushOne(c, object);
    if (!keep) central_.Insert(c, &object, 1);
    return;
  }
  // A bin that may grow does, and keeps what it has.
  if (overflow.limit > limit && SetLimit(c, limit, overflow.limit) && PushOne(c, object)) return;
  traffic_bytes_ += ReturnOldest(c, overflow.release) * kSizeClasses.size(c);
  if (overflow.limit < limit) SetLimit(c, limit, overflow.limit);
  if (!PushOne(c, object)) central_.Insert(c, &object, 1);
  // Not from this bin: the newest object in it is what tells a second free of it.
  if (claimed_bytes() > max_bytes() && CollectionIsDue()) CollectGarbage(c);
}

void ThreadCache::FreePast(SizeClass c, void* object) {
  bool twice = false;
  {
    const Section section(*this);
    if (section) twice = IsNewestInSection(Index(c), object);
  }
  if (twice) ReportMisuse(Misuse::kDoubleFree, object, kSizeClasses.size(c));
  central_.Insert(c, &object, 1);
}

size_t ThreadCache::PushFetched(SizeClass c, void* const* objects, size_t n) {
  const size_t i = Index(c);
  const Section section(*this);
  BinArray* const array = Array(i);
  if (!section || array == nullptr) return n;
  const size_t kept = std::min<size_t>(n, array->limit - Top(i));
  // One more: what Refill returns.
  array->balance = bin_policy::BalanceAfter(c, array->balance, static_cast<int64_t>(kept) + 1);
  // Backwards, four at a time.
  BinSlot* slot = bins_.tops[i].load(std::memory_order_relaxed) + 1;
  void* const* next = objects + kept;
  for (; next - objects >= 4; next -= 4, slot += 4) {
    slot[0] = reinterpret_cast<BinSlot>(next[-1]);
    slot[1] = reinterpret_cast<BinSlot>(next[-2]);
    slot[2] = reinterpret_cast<BinSlot>(next[-3]);
    slot[3] = reinterpret_cast<BinSlot>(next[-4]);
  }
  while (next != objects) *slot++ = reinterpret_cast<BinSlot>(*--next);
  bins_.tops[i].store(slot - 1, std::memory_order_relaxed);
  return n - kept;
}

bool ThreadCache::PushOne(SizeClass c, void* object) {
  const Section section(*this);
  return section && bins_.Push(c, object);
}

size_t ThreadCache::ReturnOldest(SizeClass c, size_t n) {
  if (n > kTuning.bins.max_move_objects) {
    if (const size_t returned = ExchangeArrayAndReturnOldest(c, n)) return returned;
  }
  void* objects[kTuning.bins.max_move_objects];
  size_t taken = 0;
  Origin origin = Origin::kAny;
  {
    const Section section(*this);
    if (section) {
      taken = TakeOldestInSection(Index(c), objects, std::min(n, kTuning.bins.max_move_objects));
      if (taken > 0) origin = GivenBackInSection(c, taken);
    }
  }
  if (taken > 0) central_.Insert(c, objects, taken, origin);
  return taken;
}

size_t ThreadCache::ExchangeArrayAndReturnOldest(SizeClass c, size_t n) {
  const size_t i = Index(c);
  size_t limit = 0;
  {
    const Section section(*this);
    if (section && Array(i) != nullptr) limit = Array(i)->capacity;
  }
  BinArray* const fresh = limit == 0 ? nullptr : NewArray(i, limit, limit);
  if (fresh == nullptr) return 0;
  BinArraysInFlight in_flight;
  BinArray* old = nullptr;
  Origin origin = Origin::kAny;
  {
    const Section section(*this);
    if (section && Array(i) != nullptr && Array(i)->capacity == fresh->capacity) {
      RemoveProbeInSection(i);
      old = Array(i);
      const size_t count = Top(i);
      n = std::min(n, count);
      old->count = static_cast<uint16_t>(n);
      in_flight.set_first(old);
      memcpy(fresh->slots() + 1, old->slots() + 1 + n, (count - n) * sizeof(BinSlot));
      fresh->slots()[fresh->limit + 1] = 0;
      fresh->limit = old->limit;
      fresh->slots()[fresh->limit + 1] = kFullMark;
      fresh->overages = old->overages;
      fresh->touched = old->touched;
      arrays_[i].store(fresh, std::memory_order_relaxed);
      SetTop(i, count - n);
      fresh->balance = old->balance;
      origin = GivenBackInSection(c, n);
    }
  }
  if (old == nullptr) {
    arena_.Free(fresh, fresh->bytes());
    return 0;
  }
  InsertPiecewise(central_, c, old->slots() + 1, n, origin);
  in_flight.set_first(nullptr);
  arena_.Free(old, old->bytes());
  return n;
}

// Limits and arrays.

BinArray* ThreadCache::NewArray(size_t i, size_t limit, size_t capacity) {
  const size_t bytes = BinArray::BytesFor(capacity);
  BinArray* const array = static_cast<BinArray*>(arena_.Allocate(bytes));
  if (array == nullptr) return nullptr;
  *array = {.capacity = static_cast<uint16_t>(BinArray::CapacityOf(bytes)),
            .limit = static_cast<uint16_t>(limit),
            .count = 0,
            .size_class = static_cast<SizeClass>(i),
            .overages = 0,
            .touched = true,
            .balance = 0};
  // Whatever the memory held before, nothing in it may look like the mark.
  std::fill_n(array->slots(), array->capacity + 2, BinSlot{0});
  array->slots()[limit + 1] = kFullMark;
  return array;
}

bool ThreadCache::SetLimit(SizeClass c, size_t old_limit, size_t limit) {
  const size_t i = Index(c);
  const size_t capacity = bin_policy::CapacityFor(c, limit);
  BinArray* spare = nullptr;
  if (old_limit == 0) {
    spare = NewArray(i, limit, capacity);
    if (spare == nullptr) return false;
  }
  Fit fit = TrySetLimit(i, old_limit, limit, &spare);
  if (fit == Fit::kOverBudget && CollectionIsDue()) {
    CollectGarbage(c);
    fit = TrySetLimit(i, old_limit, limit, &spare);
  }
  if (fit == Fit::kNeedsArray) {
    spare = NewArray(i, limit, capacity);
    if (spare == nullptr) return false;
    fit = TrySetLimit(i, old_limit, limit, &spare);
  }
  if (spare != nullptr) arena_.Free(spare, spare->bytes());
  return fit == Fit::kDone;
}

ThreadCache::Fit ThreadCache::TrySetLimit(size_t i, size_t old_limit, size_t limit,
                                          BinArray** spare) {
  const Section section(*this);
  if (!section) return Fit::kTaken;
  const SizeClass c = static_cast<SizeClass>(i);
  BinArray* const array = Array(i);
  const bool fits = array != nullptr && limit <= array->capacity;
  if (old_limit != (array == nullptr ? 0 : array->limit)) return Fit::kTaken;
  if (limit > old_limit) {
    const size_t more_array_bytes = fits ? 0
                                         : BinArray::BytesFor(bin_policy::CapacityFor(c, limit)) -
                                               (array == nullptr ? 0 : array->bytes());
    const size_t more = (limit - old_limit) * kSizeClasses.size(c);
    if (claimed_bytes() + more + more_array_bytes > max_bytes()) return Fit::kOverBudget;
  }
  if (fits) {
    RemoveProbeInSection(i);
    if (Top(i) <= limit) SetLimitInSection(i, limit);
    return Fit::kDone;
  }
  if (*spare == nullptr) return Fit::kNeedsArray;
  BinArray* const fresh = *spare;
  *spare = array;
  InstallInSection(i, fresh);
  return Fit::kDone;
}

void ThreadCache::InstallInSection(size_t i, BinArray* fresh) {
  RemoveProbeInSection(i);
  const BinArray* const old = Array(i);
  const size_t size = kSizeClasses.size(static_cast<SizeClass>(i));
  size_t count = 0;
  if (old != nullptr) {
    count = Top(i);
    memcpy(fresh->slots() + 1, old->slots() + 1, count * sizeof(BinSlot));
    fresh->overages = old->overages;
    fresh->balance = old->balance;
    array_bytes_.Subtract(old->bytes());
    claimed_bytes_.Subtract(old->bytes() + old->limit * size);
  }
  array_bytes_.Add(fresh->bytes());
  claimed_bytes_.Add(fresh->bytes() + fresh->limit * size);
  arrays_[i].store(fresh, std::memory_order_relaxed);
  SetTop(i, count);
}

void ThreadCache::SetLimitInSection(size_t i, size_t limit) {
  BinArray* const array = Array(i);
  const size_t size = kSizeClasses.size(static_cast<SizeClass>(i));
  TC_ASSERT(Top(i) <= limit && limit <= array->capacity);
  array->slots()[array->limit + 1] = 0;
  array->slots()[limit + 1] = kFullMark;
  claimed_bytes_.Subtract(array->limit * size);
  claimed_bytes_.Add(limit * size);
  array->limit = static_cast<uint16_t>(limit);
}

size_t ThreadCache::TakeOldestInSection(size_t i, void** objects, size_t n) {
  BinArray* const array = Array(i);
  if (array == nullptr) return 0;
  RemoveProbeInSection(i);
  const size_t count = Top(i);
  n = std::min(n, count);
  memcpy(objects, array->slots() + 1, n * sizeof(void*));
  memmove(array->slots() + 1, array->slots() + 1 + n, (count - n) * sizeof(BinSlot));
  SetTop(i, count - n);
  return n;
}

Origin ThreadCache::GivenBackInSection(SizeClass c, size_t n) {
  BinArray* const array = Array(Index(c));
  array->balance = bin_policy::BalanceAfter(c, array->balance, -static_cast<int64_t>(n));
  return array->balance < 0 ? Origin::kOtherThreads : Origin::kAny;
}

// The low-water probe.

void ThreadCache::PlaceProbeInSection(size_t i) {
  const size_t top = Top(i);
  TC_ASSERT(Probe(i) == 0);
  if (top == 0 || top == Array(i)->limit) return;
  Array(i)->slots()[top + 1] = 0;
  SetProbe(i, top + 1);
  SetTop(i, top + 1);
}

void ThreadCache::LowerProbeInSection(size_t i) {
  const size_t probe = Probe(i);
  if (probe == 0 || Top(i) != probe) return;
  BinSlot* const slots = Array(i)->slots();
  const size_t below = (probe - 1) / 2;
  // Those above the probe's new place move up by one.
  if (below > 0) {
    memmove(slots + below + 2, slots + below + 1, (probe - 1 - below) * sizeof(BinSlot));
    slots[below + 1] = 0;
    SetProbe(i, below + 1);
  } else {
    SetProbe(i, 0);
    SetTop(i, probe - 1);
  }
}

void ThreadCache::RemoveProbeInSection(size_t i) {
  const size_t probe = Probe(i);
  if (probe == 0) return;
  BinSlot* const slots = Array(i)->slots();
  const size_t top = Top(i);
  memmove(slots + probe, slots + probe + 1, (top - probe) * sizeof(BinSlot));
  SetProbe(i, 0);
  SetTop(i, top - 1);
}

// Garbage collection.

void ThreadCache::CollectGarbage(SizeClass except) {
  traffic_bytes_ = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    if (Array(i) != nullptr && c != except) CollectFrom(c);
  }
  registry_.RaiseLimit(this);
}

void ThreadCache::CollectFrom(SizeClass c) {
  const size_t i = Index(c);
  bin_policy::Collection plan;
  {
    const Section section(*this);
    if (!section || Array(i) == nullptr) return;
    BinArray* const array = Array(i);
    plan = bin_policy::DecideCollection(c, {.count = CountInSection(i),
                                            .low_water = Probe(i) == 0 ? 0 : Probe(i) - 1,
                                            .limit = array->limit,
                                            .touched = array->touched});
    array->touched = false;
  }
  if (plan.release > 0) ReturnOldest(c, plan.release);
  BinArray* unused = nullptr;
  {
    const Section section(*this);
    BinArray* const array = Array(i);
    if (!section || array == nullptr) return;
    RemoveProbeInSection(i);
    // What could not move keeps its place.
    if (plan.limit < array->limit && Top(i) <= plan.limit) SetLimitInSection(i, plan.limit);
    if (array->limit == 0) {
      unused = array;
      RemoveArrayInSection(i);
    } else {
      PlaceProbeInSection(i);
    }
  }
  if (unused != nullptr) arena_.Free(unused, unused->bytes());
}

void ThreadCache::RemoveArrayInSection(size_t i) {
  const BinArray* const array = Array(i);
  claimed_bytes_.Subtract(array->bytes() +
                          array->limit * kSizeClasses.size(static_cast<SizeClass>(i)));
  array_bytes_.Subtract(array->bytes());
  uses_without_bin_[i] = 0;
  bins_.tops[i].store(const_cast<BinSlot*>(kNoBinArray), std::memory_order_relaxed);
  arrays_[i].store(nullptr, std::memory_order_relaxed);
}

// Flushing.

void ThreadCache::DetachArrays(BinArraysInFlight* arrays) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    BinArray* const array = Array(i);
    if (array == nullptr) continue;
    RemoveProbeInSection(i);
    array->count = static_cast<uint16_t>(Top(i));
    RemoveArrayInSection(i);
    array->slots()[0] = reinterpret_cast<BinSlot>(arrays->first());
    arrays->set_first(array);
  }
}

size_t ThreadCache::ReturnDetached(BinArraysInFlight* arrays, CentralCache& central,
                                   MetadataArena& arena) {
  size_t bytes = 0;
  while (BinArray* const array = arrays->first()) {
    InsertPiecewise(central, array->size_class, array->slots() + 1, array->count);
    bytes += array->count * kSizeClasses.size(array->size_class);
    arrays->set_first(reinterpret_cast<BinArray*>(array->slots()[0]));
    arena.Free(array, array->bytes());
  }
  return bytes;
}

size_t ThreadCache::Flush() {
  flush_requested_.store(false, std::memory_order_relaxed);
  BinArraysInFlight arrays;
  {
    const Section section(*this);
    if (section) DetachArrays(&arrays);
  }
  // Its own section does not find the bins then.
  if (arrays.first() == nullptr && withheld()) registry_.DetachWithheld(this, &arrays);
  return ReturnDetached(&arrays, central_, arena_);
}

void ThreadCache::FlushAsAsked() { Flush(); }

// For other threads.

size_t ThreadCache::CachedObjects(SizeClass c) const {
  const size_t i = Index(c);
  const BinArray* const array = Array(i);
  const BinSlot* const top = bins_.tops[i].load(std::memory_order_relaxed);
  if (array == nullptr) return 0;
  // The array may have been exchanged between the two loads.
  const size_t slot =
      (reinterpret_cast<uintptr_t>(top) - reinterpret_cast<uintptr_t>(array->slots())) /
      sizeof(BinSlot);
  if (slot == 0 || slot > bin_policy::MaxLimit(c)) return 0;
  return slot - (Probe(i) != 0 ? 1 : 0);
}

size_t ThreadCache::CachedBytes() const {
  size_t bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    bytes += CachedObjects(c) * kSizeClasses.size(c);
  }
  return bytes;
}

uint64_t ThreadCache::ActivityStamp() const {
  // FNV-1a over the tops, from what the allocations count down.
  // A bin that is used as a stack may be found at the same height twice.
  uint64_t stamp = 0xcbf29ce484222325 ^ bins_.bytes_until_sample.load(std::memory_order_relaxed);
  for (const BinTop& top : bins_.tops) {
    stamp ^= reinterpret_cast<uintptr_t>(top.load(std::memory_order_relaxed));
    stamp *= 0x100000001b3;
  }
  return stamp;
}

void ThreadCache::CheckInvariants() const {
  size_t claimed = 0;
  size_t array_bytes = 0;
  for (size_t i = 0; i < kNumSizeClasses; ++i) {
    const BinArray* const array = Array(i);
    if (array == nullptr) {
      TC_CHECK(bins_.tops[i].load(std::memory_order_relaxed) == kNoBinArray &&
               Probe(i) == 0);  // B1
      continue;
    }
    const BinSlot* const slots = array->slots();
    TC_CHECK(array->limit <= array->capacity && array->size_class == static_cast<SizeClass>(i));
    TC_CHECK(slots[0] == 0 && Top(i) <= array->limit);  // B1
    for (size_t slot = 1; slot <= array->capacity + size_t{1}; ++slot) {
      TC_CHECK((slots[slot] == kFullMark) == (slot == array->limit + size_t{1}));  // B1
      if (slot <= Top(i)) TC_CHECK((slots[slot] == 0) == (slot == Probe(i)));      // B2
    }
    TC_CHECK(Probe(i) <= Top(i));  // B2
    claimed += array->bytes() + array->limit * kSizeClasses.size(array->size_class);
    array_bytes += array->bytes();
  }
  TC_CHECK(claimed == claimed_bytes() && array_bytes == array_bytes_.value());  // B3
}

}  // namespace tcmalloc
