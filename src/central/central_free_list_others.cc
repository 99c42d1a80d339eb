// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList: how a thread takes free objects of the shards of other threads.
#include <algorithm>

#include "central/central_free_list.h"

namespace tcmalloc {

size_t CentralFreeList::RemoveFromOthers(const Shard& own, RefillSource source, uint64_t shards,
                                         void** objects, size_t n) {
  shards &= ~own.bit();
  if (shards == 0) return 0;
  ShardSpans* const mine = own.spans(size_class_);
  const size_t last = mine == nullptr ? 0 : mine->last_source.load(std::memory_order_relaxed);
  const size_t begin = (own.number() + last) % ShardMap::kMost;
  const size_t new_spans = new_spans_.load(std::memory_order_relaxed);
  // Where another thread is busy, the next shard is as good: many threads that search at once would
  // else follow each other from lock to lock. If there is no next one, the thread waits: objects of
  // others come before new memory.
  uint64_t busy = 0;
  const size_t taken = parts_.shards.FirstOf(shards, begin, [&](const Shard& other) {
    return RemoveFromOther(own, other, source, new_spans, &busy, objects, n);
  });
  if (taken > 0 || busy == 0) return taken;
  return parts_.shards.FirstOf(busy, begin, [&](const Shard& other) {
    return RemoveFromOther(own, other, source, new_spans, nullptr, objects, n);
  });
}

size_t CentralFreeList::RemoveFromOther(const Shard& own, const Shard& other, RefillSource source,
                                        size_t new_spans, uint64_t* busy, void** objects,
                                        size_t n) {
  ShardSpans* const spans = other.spans(size_class_);
  if (!HasObjects(spans)) return 0;
  const uint8_t adopter = spans->adopter.load(std::memory_order_relaxed);
  const size_t used_at = spans->used_at.load(std::memory_order_relaxed);
  // Another thread may have used its shard since `new_spans` was read.
  const OtherShard facts = {.has_thread = other.num_threads() > 0 || OtherAdopts(own, adopter),
                            .new_spans_since_use = new_spans - std::min(new_spans, used_at)};
  const Takeable take = TakeFromOther(source, facts);
  if (take == Takeable::kNothing) return 0;
  SpinLock& lock = LockOf(other);
  if (busy == nullptr) {
    lock.Lock();
  } else if (!lock.TryLock()) {
    *busy |= other.bit();
    return 0;
  }
  const bool adopts = source == RefillSource::kEndedThreads;
  // With the lock held, so that only a thread that takes objects becomes the adopter.
  if (adopts && (!HasObjects(spans) || !AdoptLocked(own, *spans, adopter))) {
    lock.Unlock();
    return 0;
  }
  const size_t taken = RemoveAndUnlock(lock, *spans, take, objects, n);
  if (taken == 0) return 0;
  if (adopts) spans->used_at.store(new_spans, std::memory_order_relaxed);
  if (ShardSpans* const mine = own.spans(size_class_)) {
    const size_t distance = (other.number() - own.number()) % ShardMap::kMost;
    mine->last_source.store(static_cast<uint8_t>(distance), std::memory_order_relaxed);
  }
  return taken;
}

bool CentralFreeList::OtherAdopts(const Shard& own, uint8_t adopter) const {
  // Where an object is a line batch, threads that adopt one shard share no lines.
  if (adopter == 0 || adopter == own.number() + 1 || groups_.size() == 1) return false;
  return parts_.shards.At(adopter - size_t{1})->num_threads() > 0;
}

bool CentralFreeList::AdoptLocked(const Shard& own, ShardSpans& spans, uint8_t adopter) const {
  const uint8_t mine = static_cast<uint8_t>(own.number() + 1);
  return groups_.size() == 1 || adopter == mine ||
         spans.adopter.compare_exchange_strong(adopter, mine, std::memory_order_relaxed);
}

}  // namespace tcmalloc
