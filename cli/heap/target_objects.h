// SPDX-License-Identifier: BSD-3-Clause
// The objects in use of a target for the marker, and the memory of its tables.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "formats/marker/object_index.h"
#include "formats/marker/searched_memory.h"
#include "heap/guarded_pool.h"
#include "heap/objects.h"

namespace cli {

// Scratch: memory for the tables of one search, until its end. Thread safety: none. Cost: a system
// call for each MiB.
class Scratch : public tcmalloc::ScratchMemory {
 public:
  Scratch() : ScratchMemory(&Allocate) {}
  ~Scratch() {
    for (const auto& [start, bytes] : mappings_) munmap(start, bytes);
  }

 private:
  static constexpr size_t kChunk = size_t{1} << 20;
  static constexpr size_t kLine = 64;

  static void* Allocate(ScratchMemory& memory, size_t bytes) {
    Scratch& self = static_cast<Scratch&>(memory);
    // An allocation of 0 bytes takes a cache line, too, since null means that there is no memory.
    bytes = (std::max<size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
    if (bytes > self.left_) {
      const size_t mapped = std::max(bytes, kChunk);
      void* const fresh = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (fresh == MAP_FAILED) return nullptr;
      self.mappings_.emplace_back(fresh, mapped);
      if (bytes >= kChunk) return fresh;
      self.next_ = static_cast<char*>(fresh);
      self.left_ = mapped;
    }
    char* const result = self.next_;
    self.next_ += bytes;
    self.left_ -= bytes;
    return result;
  }

  std::vector<std::pair<void*, size_t>> mappings_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

// TargetObjects: the objects in use of a target in the index that the marker searches
// (formats/marker/object_index.h), as the library's own checker builds it for its heap.
//
// Thread safety: built once, then constant. Cost: a step for each span and each object in a cache.

// The target's pages and size classes.
struct TargetGeometry {
  static constexpr size_t kLeafBits = 18;
  static constexpr size_t kRootEntries = size_t{1} << 18;

  // Throws BadImage.
  explicit TargetGeometry(const Target& target);

  size_t page_shift() const { return shift; }
  size_t size(size_t c) const { return sizes[c]; }
  size_t ObjectAt(size_t c, size_t offset) const {
    return static_cast<uint32_t>(offset) / sizes[c];
  }
  // The first address for which the index has no entry.
  static constexpr uint64_t EndOfPages(size_t shift) {
    return uint64_t{kRootEntries} << kLeafBits << shift;
  }

  size_t shift = 0;
  // Never 0.
  std::array<uint32_t, 256> sizes;
  std::array<uint32_t, 256> objects_per_span = {};
};

class TargetObjects {
 public:
  using Index = tcmalloc::ObjectIndexOf<TargetGeometry>;
  using LiveObject = tcmalloc::LiveObject;

  // All of these must outlive this object. Throws BadImage when the records contradict each other,
  // Failure when there is no memory.
  TargetObjects(const HeapObjects& objects, const std::vector<GuardedObject>& guarded,
                Scratch& scratch);

  const Index& index() const { return index_; }
  // The most bytes that a debug library has before the program's part of an object; 0 for other
  // libraries.
  uint64_t header_bytes() const { return header_bytes_; }
  // Returns the object's span. A guarded object has its own span.
  const SpanInfo& SpanOf(const LiveObject& object) const {
    return spans_[static_cast<size_t>(&index_.RecordWithNumber(object.number) -
                                      index_.records().data())];
  }
  // The spans of all objects, in the order of the index.
  const std::vector<SpanInfo>& spans() const { return spans_; }

 private:
  using SpanToMark = tcmalloc::SpanToMark;

  SpanToMark Described(const SpanInfo& span) const;
  SpanToMark Described(const GuardedObject& object) const;
  // Throws if a span exceeds the index. No existing target has memory there.
  void CheckEnd(const SpanToMark& span) const;
  // Checks that the heap is in memory that the target has, since the index takes memory for each
  // page of it.
  static void CheckRegions(const HeapObjects& objects);

  // For a debug library: removes the objects that the program freed, which are in a queue.
  void RemoveFreed(const Target& target);

  const TargetGeometry geometry_;
  Index index_;
  uint64_t header_bytes_ = 0;
  std::vector<SpanInfo> spans_;
};

// Throws Failure unless there was memory for the search.
inline void RequireMemory(bool has_memory) {
  if (!has_memory) throw Failure("there is no memory for the search");
}

}  // namespace cli
