// SPDX-License-Identifier: BSD-3-Clause
#include "central/shard.h"

#include <algorithm>
#include <new>

#include "base/config.h"

namespace tcmalloc {

ShardMap::ShardMap(PageHeap& page_heap, MetadataArena& arena, Processor processor,
                   size_t num_shards)
    : processor_(processor), num_shards_(num_shards), page_heap_(page_heap), arena_(arena) {
  TC_CHECK(num_shards > 0 && num_shards <= kMost);
  page_heap_.AddHome(first_.home());
  shards_[0].store(&first_, std::memory_order_relaxed);
}

uint8_t ShardMap::Assign(std::atomic<uint8_t>& entry) {
  const size_t number = next_.fetch_add(1, std::memory_order_relaxed);
  const uint8_t fresh = static_cast<uint8_t>(number % std::min(num_shards_, kMaxShardsOfCpus) + 1);
  uint8_t known = 0;
  return entry.compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
}

Shard* ShardMap::TryClaim(bool existing_only) {
  size_t best = 0;
  for (size_t i = 1; i < num_shards_ && num_caches_[best] > 0; ++i) {
    CountSteps(Step::kShardConsidered);
    if (num_caches_[i] >= num_caches_[best]) continue;
    if (!existing_only || At(i) != nullptr) best = i;
  }
  Shard* const shard = At(best);
  if (shard != nullptr) ++num_caches_[best];
  return shard;
}

bool ShardMap::MakeNext() {
  size_t number = 0;
  while (number < num_shards_ && At(number) != nullptr) ++number;
  return number < num_shards_ && Ensure(number).number() == number;
}

template <typename T, typename Construct>
T* ShardMap::BuildOnce(std::atomic<T*>& slot, Construct construct) {
  if (T* const present = slot.load(std::memory_order_acquire)) return present;
  // Not under the lock: the arena may need memory from the OS.
  void* const memory = arena_.Allocate(sizeof(T));
  if (memory == nullptr) return nullptr;
  {
    const SpinLockHolder holder(lock_);
    if (slot.load(std::memory_order_relaxed) == nullptr) {
      T* const fresh = construct(memory);
      slot.store(fresh, std::memory_order_release);
      return fresh;
    }
  }
  // Another thread was faster.
  arena_.Free(memory, sizeof(T));
  return slot.load(std::memory_order_acquire);
}

Shard& ShardMap::Ensure(size_t number) {
  Shard* const known = At(number);
  if (known != nullptr) return *known;
  // Nothing would hold the new shard's locks.
  if (lock_.HeldForForkByThisThread()) return first_;
  const auto add = [this, number](void* memory) {
    Shard* const fresh = new (memory) Shard(number, MakeLocks(number), threadless_);
    page_heap_.AddHome(fresh->home());
    const size_t end = std::max(end_.load(std::memory_order_relaxed), number + 1);
    end_.store(end, std::memory_order_relaxed);
    return fresh;
  };
  Shard* const shard = BuildOnce(shards_[number], add);
  return shard != nullptr ? *shard : first_;
}

ShardSpans* ShardMap::EnsureSpans(Shard& shard, SizeClass c) {
  return BuildOnce(shard.spans_[Index(c)], [](void* memory) { return new (memory) ShardSpans; });
}

}  // namespace tcmalloc
