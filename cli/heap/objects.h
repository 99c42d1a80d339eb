// SPDX-License-Identifier: BSD-3-Clause
// HeapObjects: the objects of a target, in use or free, from its span records and thread caches.
// The objects in use are those of tcmalloc_for_each_object.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "heap/guarded_pool.h"
#include "heap/record.h"

namespace cli {

struct SpanInfo {
  Address record = 0;
  Address start = 0;
  uint64_t bytes = 0;
  uint64_t state = 0;
  bool large = false;
  // True for a span whose single object is a small one, since it is sampled. `large` is true, too.
  bool sampled_small = false;
  // True for a guarded object, with the requested bytes. It is not on pages of the heap.
  bool guarded = false;
  // The size class of small objects; 0 if the span is not in use for small objects.
  size_t size_class = 0;
  size_t shard = 0;
  uint64_t object_bytes = 0;  // usable bytes of one object
  uint64_t num_objects = 0;
  uint64_t free_objects = 0;  // in the span itself, not in caches
  Address free_bits = 0;
  Address sample = 0;  // 0 if not sampled
  int64_t handed_out_ms = 0;

  bool has_large_object() const { return large && !sampled_small && !guarded; }
  // The result may be any number, since a damaged record may have any time.
  int64_t AgeMs(int64_t now_ms) const {
    return static_cast<int64_t>(static_cast<uint64_t>(now_ms) -
                                static_cast<uint64_t>(handed_out_ms));
  }
};

struct Object {
  Address start = 0;
  uint64_t bytes = 0;
};

// The description of an address of the process.
struct Place {
  enum class Kind {
    kOutside,   // not in this heap
    kFreeSpan,  // in free pages, or in pages that the allocator uses for another purpose
    kTail,      // after the last object of a span, or of a large object
    kInUse,
    kFree,    // in the span's free objects
    kCached,  // in a thread cache
    // In the pool of guarded samples:
    kQuarantined,  // in an object that was freed
    kGuardPage,    // in no object, and inaccessible
  };
  Kind kind = Kind::kOutside;
  SpanInfo span;
  Object object;
  bool guarded = false;      // in the pool of guarded samples
  Address cache = 0;         // kCached: the ThreadCache
  bool cache_in_use = true;  // kCached: it belongs to a running thread
};

class HeapObjects {
 public:
  // Reads the thread caches and the claims. Throws BadImage.
  explicit HeapObjects(const Target& target);

  // Adds the locks and the changes on which the objects depend.
  // Returns the size of the objects that the heap makes for requests of `bytes`: that of a size
  // class, or whole pages.
  uint64_t ServedBytes(uint64_t bytes) const;
  void AddGuards(std::vector<Guard>* guards) const;

  // Calls f for every span, in the order of the regions, then for each guarded object in use, as a
  // span that consists of it.
  void ForEachSpan(const std::function<void(const SpanInfo&)>& f) const;
  // Like ForEachSpan, while the target runs: calls `skipped` for pages whose records contradict
  // each other because they change.
  void ForEachSpanWhileRunning(
      const std::function<void(const SpanInfo&)>& f,
      const std::function<void(Address start, uint64_t bytes)>& skipped) const;
  // Calls f for the ranges of the target's hardware pages on which all objects are free in the
  // span.
  void ForEachFreePages(const SpanInfo& span,
                        const std::function<void(Address start, uint64_t bytes)>& f) const;
  // Returns the number of objects in use of the span; calls f for each of them.
  uint64_t CountInUse(const SpanInfo& span) const;
  void ForEachInUse(const SpanInfo& span, const std::function<void(const Object&)>& f) const;
  // Bits of the objects of a span that are not in use: free in the span, in caches, or claimed.
  std::vector<uint64_t> UnusedBits(const SpanInfo& span) const;
  // Calls f for the word above the top of each bin whose thread was taking or returning an object:
  // it is unknown whether that object is in use or free.
  void ForEachInFlight(const std::function<void(Address)>& f) const;
  // Calls f for each piece of memory that the heap has for objects, in order.
  void ForEachRegion(const std::function<void(Address start, Address end)>& f) const;
  // Calls f for every object in use.
  void ForEachObject(const std::function<void(const SpanInfo&, const Object&)>& f) const;

  void ForEachGuarded(const std::function<void(const SpanInfo&)>& f) const;

  Place Find(Address address) const;
  const GuardedPool& guarded() const { return guarded_; }
  // The ranges of addresses that belong to the heap, in their order.
  std::vector<std::pair<Address, Address>> Regions() const;
  // The leaf of the page map for the address; 0 if the map has no such leaf.
  Address LeafOf(Address address) const;

  const Target& target() const { return target_; }
  // A span's state in words; empty when this program does not know the state.
  std::string_view StateText(const SpanInfo& span) const;

 private:
  // An object in a cache, or one that is claimed while its pages are released (cache 0).
  struct FreeObject {
    Address start;
    Address cache;
    bool cache_in_use;
  };
  // The fields that are needed for each span, since a search by name takes time.
  struct SpanFields {
    explicit SpanFields(const Layout& layout);

    size_t bytes;
    uint64_t small_state, large_state, owner_counted, owner_shard_bits;
    Field first_page, num_pages, state, owner, sampled_class, sample, handed_out_ms;
    Field num_objects, free_count, free_bits;
  };
  // The fields that are needed for each address, in the page map.
  struct PageMapFields {
    explicit PageMapFields(const Target& target);

    size_t root, entries;  // of its array of leaves
    size_t empty_leaf;     // the base of the distances of leaves
    size_t spans;          // of a leaf
  };

  SpanInfo SpanOf(const GuardedSlot& object) const;
  // Requires: the address is in the pool.
  Place FindGuarded(Address address) const;
  void ReadCaches(const Record& registry);
  void ReadClaims(const Record& holes);
  SpanInfo ReadSpan(Address record) const;
  std::optional<SpanInfo> TryReadSpan(Address record) const;
  std::optional<SpanInfo> SpanAround(Address address) const;
  // The span of the page in the page map; 0 if the page has no span.
  Address SpanAt(Address address) const;
  // The results of SpanAt for as many pages as one read gets; the last one is for the page at
  // `address`. `records` is empty if none of them has a span.
  struct PageRecords {
    uint64_t pages;
    std::vector<Address> records;
  };
  PageRecords RecordsUpTo(Address address) const;
  std::vector<uint64_t> FreeBits(const SpanInfo& span) const;
  // The first object of free_ at or after `start`.
  std::vector<FreeObject>::const_iterator FirstFree(Address start) const;
  void ForEachSpanIn(Address start, Address end,
                     const std::function<void(const SpanInfo&)>& f) const;

  const Target& target_;
  const Record heap_;
  const uint64_t page_shift_;
  const uint64_t leaf_bits_;
  const uint64_t leaf_distance_bytes_;
  const SpanFields span_fields_;
  const PageMapFields page_map_fields_;
  const GuardedPool guarded_;
  std::vector<uint64_t> class_bytes_;
  std::vector<FreeObject> free_;  // by address
};

}  // namespace cli
