// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/site_table.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/tuning.h"

namespace tcmalloc {
namespace {

uint64_t HashOf(const uintptr_t* frames, size_t depth) {
  uint64_t hash = depth;
  for (size_t i = 0; i < depth; ++i) {
    hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

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
  depth = std::min(depth, kTuning.heap_profiler.max_depth);
  const uint64_t hash = HashOf(frames, depth);
  std::atomic<Site*>& bucket = buckets_[hash % kNumBuckets];
  if (Site* const site = Find(bucket, frames, depth, hash)) return site;
  if (num_sites() >= kTuning.heap_profiler.max_stacks && depth > 1) return SiteOf(frames, 1);

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

}  // namespace tcmalloc
