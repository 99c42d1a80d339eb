// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/thread_cache.h"

#include <algorithm>

#include "base/config.h"
#include "thread_cache/bin_policy.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

// Inserts in pieces, so that the central lock is never held for long.
void InsertPiecewise(CentralCache& central, SizeClass c, BinSlot* slots, size_t n) {
  while (n > 0) {
    const size_t piece = std::min(n, kMaxMoveObjects);
    central.Insert(c, reinterpret_cast<void**>(slots), piece);
    slots += piece;
    n -= piece;
  }
}

}  // namespace

size_t ReturnArrays(BinArraysInFlight* arrays, CentralCache& central, MetadataArena& arena) {
  size_t bytes = 0;
  while (BinArray* const array = arrays->first()) {
    InsertPiecewise(central, array->size_class, array->slots() + 1, array->count);
    bytes += array->count * kSizeClasses.size(array->size_class);
    arrays->set_first(reinterpret_cast<BinArray*>(array->slots()[0]));
    arena.Free(array, array->bytes());
  }
  return bytes;
}

ThreadCache::ThreadCache(CentralCache& central, MetadataArena& arena, Registry& registry)
    : central_(central), arena_(arena), registry_(registry) {}

void ThreadCache::HandTo(ThreadSlot& slot, Shard* shard) {
  if (shard != nullptr) {
    shard_ = shard;
    table_.ForgetUses();
    traffic_bytes_ = 0;
    changing_.store(false, std::memory_order_relaxed);
  }
  slot_ = &slot;
  first_frame_ = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  record.activity_stamp = 0;
  record.stamped_at_ms = 0;
  unfilled_bytes_ = 0;
  budget_is_short_ = false;
  flush_requested_.store(false, std::memory_order_relaxed);
  detached_.store(false, std::memory_order_relaxed);
  countdown_.Reset(table_.bins().bytes_until_sample);
}

// Slow paths. While another thread has taken the cache, the central cache serves the owner.

void* ThreadCache::Allocate(SizeClass c) {
  slow_paths_.Add(1);
  if (flush_requested_.load(std::memory_order_relaxed)) FlushAsAsked();
  const size_t i = Index(c);
  size_t limit = 0;
  bool mine;
  bool wants_bin = true;
  {
    const Section section(*this);
    mine = static_cast<bool>(section);
    if (mine) {
      // The cache may have been taken and put back between the fast path and here, or the countdown
      // ended the fast path.
      if (void* const object = table_.bins().Pop(c)) return object;
      if (BinArray* const array = table_.Array(i)) {
        limit = array->limit;
        array->unused_for = 0;
      } else {
        wants_bin = !table_.CountsAsSeldom(c);
      }
    }
  }
  if (!mine) registry_.Reattach(this);
  if (!mine || !wants_bin) {
    void* object;
    return central_.Remove(*shard_, c, &object, 1) == 1 ? object : nullptr;
  }
  const size_t next = bin_policy::LimitAfterUnderflow(c, limit);
  if (next == limit || SetLimit(c, limit, next)) {
    return Fetch(c, bin_policy::RefillCount(c, next));
  }
  if (limit == 0) CountUseWithoutBin(c);
  return Fetch(c, budget_is_short_ ? bin_policy::RefillCountWithoutGrowth(c, limit)
                                   : bin_policy::RefillCount(c, limit));
}

void* ThreadCache::Fetch(SizeClass c, size_t n) {
  if (claimed_bytes() < kReturnedFromBytes) return Refill(c, n, Memory::kAny);
  if (void* const object = Refill(c, n, Memory::kBacked)) return object;
  ReturnBeforeGrowth();
  return Refill(c, n, Memory::kAny);
}

void* ThreadCache::Refill(SizeClass c, size_t n, Memory memory) {
  void* objects[kMaxMoveObjects];
  n = central_.Remove(*shard_, c, objects, n, memory);
  if (n == 0) return nullptr;
  traffic_bytes_ += n * kSizeClasses.size(c);
  size_t left = n - 1;
  {
    const Section section(*this);
    if (section && table_.Array(Index(c)) != nullptr) {
      left = table_.PushAll(Index(c), objects, left);
      table_.Array(Index(c))->fetched += n - left;
    }
  }
  void* const object = objects[n - 1];
  if (left > 0) central_.Insert(*shard_, c, objects, left);
  return object;
}

void ThreadCache::Free(SizeClass c, void* object) {
  slow_paths_.Add(1);
  if (flush_requested_.load(std::memory_order_relaxed)) FlushAsAsked();
  const size_t i = Index(c);
  bool mine;
  bool twice = false;
  bool seldom = false;
  size_t limit = 0;
  bin_policy::Overflow overflow = {};
  {
    const Section section(*this);
    mine = static_cast<bool>(section);
    if (mine) {
      twice = table_.IsNewest(i, object);
      if (!twice && table_.bins().Push(c, object)) return;
      if (BinArray* const array = table_.Array(i)) {
        limit = array->limit;
        const bool may_grow =
            array->fetched >= limit ||
            bin_policy::FreesMayFill(c, limit, registry_.max_bin_bytes_of_frees());
        overflow = bin_policy::DecideOverflow(c, limit, array->overages, may_grow);
        array->overages = overflow.overages & 0xf;
        array->unused_for = 0;
      } else {
        seldom = table_.CountsAsSeldom(c);
      }
    }
  }
  if (twice) ReportMisuse(Misuse::kDoubleFree, object, kSizeClasses.size(c));
  if (!mine) registry_.Reattach(this);
  if (!mine || seldom) {
    central_.Insert(*shard_, c, &object, 1);
    return;
  }
  if (limit == 0) return FreeWithoutBin(c, object);
  // If the bin may grow, it does, and keeps its objects.
  if (overflow.limit > limit && SetLimit(c, limit, overflow.limit) && PushOne(c, object)) return;
  if (limit < bin_policy::Batch(c) && budget_is_short_) {
    overflow.release = bin_policy::MoveCountWithoutGrowth(c, limit);
  }
  traffic_bytes_ += ReturnOldest(c, overflow.release) * kSizeClasses.size(c);
  if (overflow.limit < limit) SetLimit(c, limit, overflow.limit);
  if (!PushOne(c, object)) central_.Insert(*shard_, c, &object, 1);
  // This bin is excepted, because its newest object is needed to recognise a second free.
  if (claimed_bytes() > MaxClaim() && CollectionIsDue()) CollectGarbage(c);
}

void ThreadCache::FreeWithoutBin(SizeClass c, void* object) {
  const size_t limit = bin_policy::InitialLimit(c);
  if (!bin_policy::FreesMayFill(c, limit, registry_.max_bin_bytes_of_frees())) {
    // An allocation would have made a bin.
    central_.Insert(*shard_, c, &object, 1, Origin::kOtherThreads);
    return;
  }
  // If a first free has passed the object to the central cache, it is not out, and Insert reports
  // this second free. Without room for a bin, the object goes to the central cache, too.
  if (central_.IsOut(c, object) && SetLimit(c, 0, limit) && PushOne(c, object)) return;
  CountUseWithoutBin(c);
  central_.Insert(*shard_, c, &object, 1);
}

void ThreadCache::FreePast(SizeClass c, void* object) {
  bool twice = false;
  {
    const Section section(*this);
    if (section) twice = table_.IsNewest(Index(c), object);
  }
  if (twice) ReportMisuse(Misuse::kDoubleFree, object, kSizeClasses.size(c));
  central_.Insert(*shard_, c, &object, 1);
}

TC_SLOW_PATH void ThreadCache::ReturnBeforeGrowth() {
  for (size_t i = kNumSizeClasses - 1; i > 0; --i) {
    const SizeClass c = static_cast<SizeClass>(i);
    if (kSizeClasses.size(c) <= kReturnedAboveBytes) return;
    if (table_.Array(i) != nullptr) ReturnOldest(c, SIZE_MAX);
  }
}

bool ThreadCache::PushOne(SizeClass c, void* object) {
  const Section section(*this);
  return section && table_.bins().Push(c, object);
}

size_t ThreadCache::ReturnOldest(SizeClass c, size_t n) {
  void* objects[kMaxMoveObjects];
  size_t returned = 0;
  while (returned < n) {
    size_t taken = 0;
    Origin origin = Origin::kAny;
    {
      const Section section(*this);
      if (section) {
        taken = table_.TakeOldest(Index(c), objects, n - returned);
        if (taken > 0) origin = CountReturned(c, taken);
      }
    }
    if (taken == 0) break;
    central_.Insert(*shard_, c, objects, taken, origin);
    returned += taken;
  }
  return returned;
}

Origin ThreadCache::CountReturned(SizeClass c, size_t n) {
  BinArray* const array = table_.Array(Index(c));
  const Origin origin = array->fetched < n ? Origin::kOtherThreads : Origin::kAny;
  array->fetched -= std::min<uint64_t>(array->fetched, n);
  return origin;
}

// Limits.

size_t ThreadCache::MaxClaim() const {
  const size_t limit = max_bytes();
  return registry_.total_was_set() ? limit : limit + CacheBudget::Excess(limit, unfilled_bytes_);
}

BinArray* ThreadCache::NewArray(size_t i, size_t limit, size_t capacity) {
  const size_t bytes = BinArray::BytesFor(capacity);
  BinArray* const array = static_cast<BinArray*>(arena_.Allocate(bytes));
  if (array == nullptr) return nullptr;
  *array = {.capacity = static_cast<uint16_t>(BinArray::CapacityOf(bytes)),
            .limit = static_cast<uint16_t>(limit),
            .count = 0,
            .size_class = static_cast<SizeClass>(i),
            .overages = 0,
            .unused_for = 0,
            .fetched = 0};
  // Old contents of the memory must not look like the mark.
  std::fill_n(array->slots(), array->capacity + 2, BinSlot{0});
  array->slots()[limit + 1] = kFullMark;
  return array;
}

bool ThreadCache::SetLimit(SizeClass c, size_t old_limit, size_t limit) {
  const size_t i = Index(c);
  BinArray* spare = nullptr;
  if (limit > old_limit) {
    const size_t more = (limit - old_limit) * kSizeClasses.size(c);
    const bool fits = claimed_bytes() + more <= MaxClaim();
    // While the budget is short, most requests to grow are refused here, before an access section.
    if (!fits && !CollectionIsDue()) return false;
    // A new bin needs an array.
    if (fits && old_limit == 0) {
      spare = NewArray(i, limit, bin_policy::CapacityFor(c, limit));
      if (spare == nullptr) return false;
    }
  }
  Fit fit = TrySetLimit(i, old_limit, limit, &spare);
  if (fit == Fit::kOverBudget && CollectionIsDue()) {
    CollectGarbage(c);
    fit = TrySetLimit(i, old_limit, limit, &spare);
  }
  if (fit == Fit::kNeedsArray) {
    spare = NewArray(i, limit, bin_policy::CapacityFor(c, limit));
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
  BinArray* const array = table_.Array(i);
  const bool fits = array != nullptr && limit <= array->capacity;
  if (old_limit != (array == nullptr ? 0 : array->limit)) return Fit::kTaken;
  if (limit > old_limit) {
    const size_t more_array_bytes = fits ? 0
                                         : BinArray::BytesFor(bin_policy::CapacityFor(c, limit)) -
                                               (array == nullptr ? 0 : array->bytes());
    const size_t more = (limit - old_limit) * kSizeClasses.size(c);
    if (claimed_bytes() + more + more_array_bytes > MaxClaim()) return Fit::kOverBudget;
  }
  if (fits) {
    if (table_.Count(i) <= limit) table_.SetLimit(i, limit);
    return Fit::kDone;
  }
  if (*spare == nullptr) return Fit::kNeedsArray;
  BinArray* const fresh = *spare;
  *spare = array;
  table_.Install(i, fresh);
  return Fit::kDone;
}

// Garbage collection.

void ThreadCache::CollectGarbage(SizeClass except) {
  traffic_bytes_ = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    if (table_.Array(i) != nullptr && c != except) CollectFrom(c);
  }
  budget_is_short_ = !registry_.RaiseLimit(this);
  unfilled_bytes_ = 0;
  if (!budget_is_short_) return;
  // Another thread may empty the cache between the two reads.
  const size_t claimed = claimed_bytes();
  unfilled_bytes_ = claimed - std::min(claimed, table_.CachedBytes() + table_.array_bytes());
}

void ThreadCache::CollectFrom(SizeClass c) {
  const size_t i = Index(c);
  bin_policy::Collection plan;
  {
    const Section section(*this);
    if (!section || table_.Array(i) == nullptr) return;
    BinArray* const array = table_.Array(i);
    const bin_policy::BinUse use = {
        .count = table_.Count(i), .limit = array->limit, .unused_for = array->unused_for};
    if (array->unused_for < kMaxUnusedFor) ++array->unused_for;
    if (bin_policy::IsSpared(c, use, budget_is_short_ ? max_bytes() : 0)) return;
    plan = bin_policy::DecideCollection(c, use);
  }
  if (plan.release > 0) ReturnOldest(c, plan.release);
  BinArray* unused = nullptr;
  {
    const Section section(*this);
    BinArray* const array = table_.Array(i);
    if (!section || array == nullptr) return;
    // The limit stays high enough for objects that could not move.
    if (plan.limit < array->limit && table_.Count(i) <= plan.limit) table_.SetLimit(i, plan.limit);
    if (array->limit == 0) {
      unused = array;
      table_.Remove(i);
    }
  }
  if (unused != nullptr) arena_.Free(unused, unused->bytes());
}

// Flushing.

size_t ThreadCache::Flush() {
  flush_requested_.store(false, std::memory_order_relaxed);
  BinArraysInFlight arrays;
  {
    const Section section(*this);
    // No other thread touches the bins of a detached cache. What one did before is visible, since
    // the load has acquire order.
    if (section || detached()) table_.Detach(&arrays);
  }
  return ReturnArrays(&arrays, central_, arena_);
}

void ThreadCache::FlushAsAsked() { Flush(); }

}  // namespace tcmalloc
