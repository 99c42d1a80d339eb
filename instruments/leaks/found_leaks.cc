// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/found_leaks.h"

#include <algorithm>

#include "base/config.h"

namespace tcmalloc {
namespace {

constexpr size_t kFirstSlots = 1024;

uint64_t HashOf(const uintptr_t* frames, size_t depth, size_t object_size, AgeBucket age) {
  uint64_t hash = (object_size ^ static_cast<uint64_t>(age) << 60) * 0x9e3779b97f4a7c15;
  for (size_t i = 0; i < depth; ++i) hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15;
  return hash >> 20;
}

// Sorts by leaked bytes, most first; the other criteria make reports comparable.
bool Before(const LeakSite& a, const LeakSite& b) {
  if (a.bytes != b.bytes) return a.bytes > b.bytes;
  if (a.objects != b.objects) return a.objects > b.objects;
  if (a.age != b.age) return a.age > b.age;
  return a.example < b.example;
}

}  // namespace

uint32_t& FoundLeaks::SlotOf(const uintptr_t* frames, size_t depth, size_t object_size,
                             AgeBucket age) {
  const size_t mask = slots_.size() - 1;
  size_t i = HashOf(frames, depth, object_size, age) & mask;
  for (; slots_[i] != 0; i = (i + 1) & mask) {
    const LeakSite& site = sites_[slots_[i] - 1];
    if (site.depth == depth && site.object_size == object_size && site.age == age &&
        std::equal(frames, frames + depth, site.frames)) {
      break;
    }
  }
  return slots_[i];
}

bool FoundLeaks::GrowSlots() {
  const size_t wanted = std::max(kFirstSlots, 2 * slots_.size());
  MappedArray<uint32_t> larger(vm_);
  if (!larger.Reserve(wanted)) return false;
  larger.Extend(wanted);
  slots_.Swap(&larger);
  for (size_t i = 0; i < sites_.size(); ++i) {
    const LeakSite& site = sites_[i];
    SlotOf(site.frames, site.depth, site.object_size, site.age) = static_cast<uint32_t>(i + 1);
  }
  return true;
}

void FoundLeaks::Clear() {
  MappedArray<uint32_t> none(vm_);
  slots_.Swap(&none);
  sites_.Clear();
  entries_.Clear();
  frames_.FreeAll();
  static_cast<LeakSummary&>(*this) = {};
}

LeakSite* FoundLeaks::Add(const LeakedObject& object, bool by_object) {
  // If the stack is known, it alone identifies a site.
  const size_t depth = object.depth;
  const size_t object_size = depth > 0 ? 0 : object.object_size;
  const AgeBucket age = depth > 0 ? AgeBucket::kSecond : object.age;
  LeakSite* site = nullptr;
  if (!by_object) {
    if (2 * (sites_.size() + 1) > slots_.size() && !GrowSlots()) return nullptr;
    uint32_t& slot = SlotOf(object.frames, depth, object_size, age);
    if (slot != 0) {
      site = &sites_[slot - 1];
    } else {
      slot = static_cast<uint32_t>(sites_.size() + 1);
    }
  }
  if (site == nullptr) {
    // With `by_object`, the object's address is the first frame; then the stack follows.
    uintptr_t* const own = frames_.AllocateArray<uintptr_t>(depth + 1);
    if (own == nullptr) return nullptr;
    own[0] = object.address;
    std::copy_n(object.frames, depth, own + 1);
    LeakSite fresh;
    fresh.frames = by_object ? own : own + 1;
    fresh.depth = by_object ? depth + 1 : depth;
    fresh.object_size = object_size;
    fresh.age = age;
    if (!sites_.Push(fresh)) return nullptr;
    site = sites_.end() - 1;
  }
  if (site->objects == 0 || (object.direct && site->direct_objects == 0)) {
    site->example = object.address;
  }
  ++site->objects;
  site->bytes += object.requested_bytes;
  if (object.direct) {
    ++site->direct_objects;
    site->direct_bytes += object.requested_bytes;
  }
  if (object.reached_far) {
    ++reached_far_objects;
    reached_far_bytes += object.requested_bytes;
  }
  return site;
}

bool FoundLeaks::SetNearestStack(LeakSite* site, const uintptr_t* frames, size_t depth) {
  uintptr_t* const own = frames_.AllocateArray<uintptr_t>(depth);
  if (own == nullptr) return false;
  std::copy_n(frames, depth, own);
  site->nearest_frames = own;
  site->nearest_depth = depth;
  return true;
}

bool FoundLeaks::Finish() {
  {
    MappedArray<uint32_t> none(vm_);
    slots_.Swap(&none);
  }
  std::sort(sites_.begin(), sites_.end(), &Before);
  objects = bytes = direct_objects = direct_bytes = 0;
  for (const LeakSite& site : sites_) {
    objects += site.objects;
    bytes += site.bytes;
    direct_objects += site.direct_objects;
    direct_bytes += site.direct_bytes;
  }
  if (!entries_.Reserve(sites_.size())) return false;
  for (const LeakSite& site : sites_) {
    ProfileEntry entry;
    entry.frames = site.frames;
    entry.depth = site.depth;
    if (site.depth == 0) {
      entry.frames = site.nearest_frames;
      entry.depth = site.nearest_depth;
      entry.guessed_stack = site.nearest_depth > 0;
    }
    entry.object_size = site.object_size;
    if (site.object_size > 0) entry.age_at_least_ms = AgeAtLeastMs(site.age);
    entry.live_objects = entry.allocated_objects = site.objects;
    entry.live_bytes = entry.allocated_bytes = site.bytes;
    entry.estimated_live_objects = entry.estimated_allocated_objects =
        static_cast<double>(site.objects);
    entry.estimated_live_bytes = entry.estimated_allocated_bytes = static_cast<double>(site.bytes);
    if (!entries_.Push(entry)) return false;
  }
  return true;
}

Profile FoundLeaks::AsProfile() const {
  TC_ASSERT(entries_.size() == sites_.size());
  Profile profile;
  profile.kind = ProfileKind::kHeap;
  profile.time_ns = time_ns;
  profile.entries = entries_.data();
  profile.num_entries = entries_.size();
  return profile;
}

}  // namespace tcmalloc
