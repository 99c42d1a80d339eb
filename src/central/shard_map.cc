// SPDX-License-Identifier: BSD-3-Clause
#include "central/shard_map.h"

#include <new>

#include "base/check.h"

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
  const uint8_t fresh = static_cast<uint8_t>(number % num_shards_ + 1);
  uint8_t known = 0;
  return entry.compare_exchange_strong(known, fresh, std::memory_order_relaxed) ? fresh : known;
}

template <typename T, typename Prepare, typename... Arguments>
T* ShardMap::BuildOnce(std::atomic<T*>& slot, Prepare prepare, Arguments... arguments) {
  if (T* const present = slot.load(std::memory_order_acquire)) return present;
  // Not under the lock: the arena may need memory from the OS.
  void* const memory = arena_.Allocate(sizeof(T));
  if (memory == nullptr) return nullptr;
  {
    const SpinLockHolder holder(lock_);
    if (slot.load(std::memory_order_relaxed) == nullptr) {
      T* const fresh = new (memory) T(arguments...);
      prepare(*fresh);
      slot.store(fresh, std::memory_order_release);
      return fresh;
    }
  }
  // Another thread was faster.
  arena_.Free(memory, sizeof(T));
  return slot.load(std::memory_order_acquire);
}

Shard& ShardMap::Ensure(size_t number) {
  Shard* const shard = BuildOnce(
      shards_[number], [this](Shard& fresh) { page_heap_.AddHome(fresh.home()); }, number);
  return shard != nullptr ? *shard : first_;
}

ShardSpans* ShardMap::EnsureSpans(Shard& shard, SizeClass c) {
  return BuildOnce(shard.spans_[Index(c)], [](ShardSpans&) {});
}

}  // namespace tcmalloc
