// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/object_table.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/config.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

// The most full stacks. Further stacks differ only by the innermost return address: a program with
// endlessly many stacks has few instructions that allocate.
constexpr size_t kMaxSites = size_t{1} << 20;

constexpr size_t kFirstBytes = 1024;

size_t MostIn(size_t capacity) { return capacity - capacity / 4; }

}  // namespace

bool Site::Is(const uintptr_t* frames, size_t depth, uint64_t hash) const {
  return hash_ == hash && depth_ == depth &&
         (depth == 0 || memcmp(this->frames(), frames, depth * sizeof(uintptr_t)) == 0);
}

void Site::Read(ProfileEntry* entry) const {
  const uint64_t freed_objects = freed_objects_.load(std::memory_order_acquire);
  const uint64_t freed_bytes = freed_bytes_.load(std::memory_order_acquire);
  const uint64_t objects = allocated_objects_.load(std::memory_order_relaxed);
  const uint64_t bytes = allocated_bytes_.load(std::memory_order_relaxed);
  *entry = ProfileEntry();
  entry->frames = frames();
  entry->depth = depth_;
  entry->live_objects = objects - freed_objects;
  entry->live_bytes = bytes - freed_bytes;
  entry->allocated_objects = objects - freed_objects_before_.load(std::memory_order_relaxed);
  entry->allocated_bytes = bytes - freed_bytes_before_.load(std::memory_order_relaxed);
  entry->estimated_live_objects = static_cast<double>(entry->live_objects);
  entry->estimated_live_bytes = static_cast<double>(entry->live_bytes);
  entry->estimated_allocated_objects = static_cast<double>(entry->allocated_objects);
  entry->estimated_allocated_bytes = static_cast<double>(entry->allocated_bytes);
}

bool SiteTable::Prepare() {
  if (buckets_ != nullptr) return true;
  constexpr size_t kBytes = kNumBuckets * sizeof(*buckets_);
  const size_t page = arena_.vm().hardware_page_size();
  const Mapping mapping = arena_.vm().Map((kBytes + page - 1) / page * page, page);
  if (mapping.start == nullptr) return false;
  if (!mapping.zero_filled) memset(mapping.start, 0, kBytes);
  buckets_ = static_cast<std::atomic<Site*>*>(mapping.start);
  return true;
}

Site* SiteTable::Find(std::atomic<Site*>& bucket, const uintptr_t* frames, size_t depth,
                      uint64_t hash) const {
  Site* site = bucket.load(std::memory_order_acquire);
  while (site != nullptr && !site->Is(frames, depth, hash)) site = site->next_;
  return site;
}

Site* SiteTable::SiteOf(const uintptr_t* frames, size_t depth) {
  TC_ASSERT(buckets_ != nullptr);
  depth = std::min(depth, kMaxSiteDepth);
  const uint64_t hash = HashOfStack(frames, depth);
  std::atomic<Site*>& bucket = buckets_[hash % kNumBuckets];
  if (Site* const site = Find(bucket, frames, depth, hash)) return site;
  if (num_sites() >= kMaxSites && depth > 1) return SiteOf(frames, 1);

  const size_t bytes = sizeof(Site) + depth * sizeof(uintptr_t);
  void* const memory = arena_.Allocate(bytes);
  if (memory == nullptr) return nullptr;
  Site* const fresh = new (memory) Site;
  fresh->hash_ = hash;
  fresh->depth_ = depth;
  if (depth > 0) memcpy(static_cast<void*>(fresh + 1), frames, depth * sizeof(uintptr_t));
  Site* first = bucket.load(std::memory_order_acquire);
  for (;;) {
    for (Site* site = first; site != nullptr; site = site->next_) {
      if (!site->Is(frames, depth, hash)) continue;
      arena_.Free(memory, bytes);
      return site;
    }
    fresh->next_ = first;
    if (bucket.compare_exchange_strong(first, fresh, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      num_sites_.Add(1);
      return fresh;
    }
  }
}

void SiteTable::BeginSession() {
  for (size_t i = 0; i < kNumBuckets; ++i) {
    for (Site* site = buckets_[i].load(std::memory_order_acquire); site != nullptr;
         site = site->next_) {
      site->freed_objects_before_.store(site->freed_objects_.load(std::memory_order_acquire),
                                        std::memory_order_relaxed);
      site->freed_bytes_before_.store(site->freed_bytes_.load(std::memory_order_acquire),
                                      std::memory_order_relaxed);
    }
  }
}

size_t SiteTable::Read(ProfileEntry* entries, size_t max) const {
  size_t count = 0;
  for (size_t i = 0; i < kNumBuckets; ++i) {
    for (const Site* site = buckets_[i].load(std::memory_order_acquire);
         site != nullptr && count < max; site = site->next_) {
      site->Read(&entries[count]);
      if (entries[count].allocated_objects > 0) ++count;
    }
  }
  return count;
}

ObjectTable::Slots ObjectTable::NewSlots(size_t bytes) {
  void* memory = nullptr;
  bool zero = false;
  if (bytes <= MetadataArena::kMaxBytes) {
    memory = arena_.Allocate(bytes);
  } else {
    const Mapping mapping = arena_.vm().Map(bytes, arena_.vm().hardware_page_size());
    memory = mapping.start;
    zero = mapping.zero_filled;
  }
  if (memory == nullptr) return {};
  if (!zero) memset(memory, 0, bytes);
  return {static_cast<Slot*>(memory), bytes, bytes / sizeof(Slot)};
}

void ObjectTable::FreeSlots(const Slots& slots) {
  if (slots.start == nullptr) return;
  if (slots.bytes <= MetadataArena::kMaxBytes) {
    arena_.Free(slots.start, slots.bytes);
  } else if (!arena_.vm().Unmap(slots.start, slots.bytes)) {
    // Memory that cannot be unmapped is at least released.
    static_cast<void>(arena_.vm().Release(slots.start, slots.bytes));
  }
}

ObjectTable::Slot& ObjectTable::SlotOf(const Slots& slots, uintptr_t object, uint64_t hash) {
  size_t i = HomeOf(hash, slots.capacity);
  while (slots.start[i].object != object && slots.start[i].object != 0) {
    if (++i == slots.capacity) i = 0;
  }
  return slots.start[i];
}

void ObjectTable::CountFreedLocked(Shard& shard, const Slot& slot) {
  slot.site->Freed(slot.bytes);
  shard.traffic.freed_bytes += slot.bytes;
}

void ObjectTable::ReportTrafficLocked(Shard& shard, Traffic* traffic) {
  const Traffic own = shard.traffic;
  const uint64_t threshold = traffic_threshold_.load(std::memory_order_relaxed);
  if (own.allocated_bytes <= threshold && own.freed_bytes <= threshold) return;
  traffic->allocated_bytes += own.allocated_bytes;
  traffic->freed_bytes += own.freed_bytes;
  shard.traffic = Traffic();
}

bool ObjectTable::TryInsertLocked(Shard& shard, uint64_t hash, const Slot& fresh, size_t most,
                                  Traffic* traffic) {
  if (shard.used >= most) return false;
  Slot& slot = SlotOf(shard.slots, fresh.object, hash);
  if (slot.object == 0) {
    ++shard.used;
  } else {
    CountFreedLocked(shard, slot);
  }
  slot = fresh;
  fresh.site->Allocated(fresh.bytes);
  shard.traffic.allocated_bytes += fresh.bytes;
  ReportTrafficLocked(shard, traffic);
  return true;
}

bool ObjectTable::Insert(uintptr_t object, Site* site, uint64_t bytes, Traffic* traffic,
                         uint32_t mark) {
  TC_ASSERT(object != 0 && site != nullptr);
  const Slot inserted = {object, site, std::min(bytes, kMaxBytes), std::min(mark, kMaxMark)};
  const uint64_t hash = HashOf(object);
  Shard& shard = ShardOf(hash);
  for (;;) {
    size_t wanted;
    {
      const SpinLockHolder holder(shard.lock);
      if (TryInsertLocked(shard, hash, inserted, MostIn(shard.slots.capacity), traffic)) {
        return true;
      }
      wanted = shard.slots.bytes == 0 ? kFirstBytes : 2 * shard.slots.bytes;
    }
    Slots fresh = NewSlots(wanted);
    if (fresh.start == nullptr) {
      // One slot must stay free, since a free slot ends a search.
      const SpinLockHolder holder(shard.lock);
      const size_t capacity = shard.slots.capacity;
      return capacity > 0 && TryInsertLocked(shard, hash, inserted, capacity - 1, traffic);
    }
    {
      const SpinLockHolder holder(shard.lock);
      if (shard.slots.bytes < wanted) {
        for (size_t i = 0; i < shard.slots.capacity; ++i) {
          const Slot& slot = shard.slots.start[i];
          if (slot.object != 0) SlotOf(fresh, slot.object, HashOf(slot.object)) = slot;
        }
        const Slots old = shard.slots;
        shard.slots = fresh;
        fresh = old;
      }
    }
    FreeSlots(fresh);
  }
}

bool ObjectTable::Remove(uintptr_t object, Traffic* traffic) {
  const uint64_t hash = HashOf(object);
  Shard& shard = ShardOf(hash);
  const SpinLockHolder holder(shard.lock);
  const Slots slots = shard.slots;
  Slot* const found = slots.capacity == 0 ? nullptr : &SlotOf(slots, object, hash);
  if (found == nullptr || found->object == 0) return false;
  CountFreedLocked(shard, *found);
  --shard.used;
  ReportTrafficLocked(shard, traffic);
  // Fills the gap with the first object after it that may be there, then the gap that this object
  // leaves: there may be no free slot between an object's home and its slot.
  size_t gap = static_cast<size_t>(found - slots.start);
  size_t i = gap;
  for (;;) {
    if (++i == slots.capacity) i = 0;
    const Slot& slot = slots.start[i];
    if (slot.object == 0) break;
    const size_t home = HomeOf(HashOf(slot.object), slots.capacity);
    const size_t from_home = i >= home ? i - home : i + slots.capacity - home;
    const size_t from_gap = i >= gap ? i - gap : i + slots.capacity - gap;
    if (from_home < from_gap) continue;
    slots.start[gap] = slot;
    gap = i;
  }
  slots.start[gap] = Slot();
  return true;
}

bool ObjectTable::Find(uintptr_t object, Record* record) {
  const uint64_t hash = HashOf(object);
  Shard& shard = ShardOf(hash);
  const SpinLockHolder holder(shard.lock);
  if (shard.slots.capacity == 0) return false;
  const Slot& slot = SlotOf(shard.slots, object, hash);
  if (slot.object == 0) return false;
  *record = {slot.site, slot.bytes, static_cast<uint32_t>(slot.mark)};
  return true;
}

void ObjectTable::Clear() {
  for (Shard& shard : shards_) {
    Slots slots;
    {
      const SpinLockHolder holder(shard.lock);
      slots = shard.slots;
      for (size_t i = 0; i < slots.capacity; ++i) {
        if (slots.start[i].object != 0) CountFreedLocked(shard, slots.start[i]);
      }
      shard.slots = Slots();
      shard.used = 0;
      shard.traffic = Traffic();
    }
    FreeSlots(slots);
  }
}

size_t ObjectTable::num_objects() {
  size_t sum = 0;
  for (Shard& shard : shards_) {
    const SpinLockHolder holder(shard.lock);
    sum += shard.used;
  }
  return sum;
}

}  // namespace tcmalloc
