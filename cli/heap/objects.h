// SPDX-License-Identifier: BSD-3-Clause
// HeapObjects: the objects of a target, in use or free, from its span records and thread caches.
// The objects in use are those of tcmalloc_for_each_object.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "heap/record.h"

namespace cli {

struct SpanInfo {
  Address record = 0;
  Address start = 0;
  uint64_t bytes = 0;
  uint64_t state = 0;
  bool large = false;
  // Of small objects; 0: not in use for small objects.
  size_t size_class = 0;
  size_t shard = 0;
  uint64_t object_bytes = 0;  // usable bytes of one object
  uint64_t num_objects = 0;
  uint64_t free_objects = 0;  // in the span itself, not in caches
  Address free_bits = 0;
  Address sample = 0;  // 0: not sampled
  int64_t handed_out_ms = 0;
};

struct Object {
  Address start = 0;
  uint64_t bytes = 0;
};

// Where an address is.
struct Place {
  enum class Kind {
    kOutside,   // not in this heap
    kFreeSpan,  // in free pages, or in pages that the allocator uses otherwise
    kTail,      // after the last object of a span, or of a large object
    kInUse,
    kFree,    // in the span's free objects
    kCached,  // in a thread cache
  };
  Kind kind = Kind::kOutside;
  SpanInfo span;
  Object object;
  Address cache = 0;         // kCached: the ThreadCache
  bool cache_in_use = true;  // kCached: it belongs to a running thread
};

class HeapObjects {
 public:
  // Reads the thread caches and the claims. Throws BadImage.
  explicit HeapObjects(const Target& target);

  // The locks that are held and the changes under way, by name; empty: the target is quiescent.
  std::vector<std::string> Guards() const;

  // Every span, in the order of the regions.
  void ForEachSpan(const std::function<void(const SpanInfo&)>& f) const;
  // As ForEachSpan, while the target runs: calls `skipped` for pages whose records contradict each
  // other because they change.
  void ForEachSpanWhileRunning(
      const std::function<void(const SpanInfo&)>& f,
      const std::function<void(Address start, uint64_t bytes)>& skipped) const;
  // Ranges of the target's hardware pages on which all objects are free in the span.
  void ForEachFreePages(const SpanInfo& span,
                        const std::function<void(Address start, uint64_t bytes)>& f) const;
  // The objects in use of the span.
  void ForEachInUse(const SpanInfo& span, const std::function<void(const Object&)>& f) const;
  // Every object in use.
  void ForEachObject(const std::function<void(const SpanInfo&, const Object&)>& f) const;

  Place Find(Address address) const;

  const Target& target() const { return target_; }
  // The target's name of a span's state.
  std::string StateName(const SpanInfo& span) const;

 private:
  struct Cached {
    Address cache;
    bool in_use;
  };

  void ReadCaches(const Record& registry);
  void ReadClaims(const Record& holes);
  SpanInfo ReadSpan(Address record) const;
  // The span of the page in the page map; 0: none.
  Address SpanAt(Address address) const;
  std::vector<uint64_t> FreeBits(const SpanInfo& span) const;
  void ForEachRegion(const std::function<void(Address start, Address end)>& f) const;
  void ForEachSpanIn(Address start, Address end,
                     const std::function<bool(const SpanInfo&)>& f) const;

  const Target& target_;
  const Record heap_;
  const uint64_t page_shift_;
  const uint64_t leaf_bits_;
  const uint64_t small_state_;
  const uint64_t large_state_;
  std::vector<uint64_t> class_bytes_;
  std::unordered_map<Address, Cached> free_;  // objects in caches, and claimed ones (cache 0)
};

}  // namespace cli
