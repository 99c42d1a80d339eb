// SPDX-License-Identifier: BSD-3-Clause
// A separate heap for tests of the parts above the page heap: metadata arena, page map, page heap
// and central cache on fake memory, with a hardware page size of the test's choice.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csignal>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/size_classes.h"
#include "base/text.h"
#include "central/central_cache.h"
#include "central/shard.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"
#include "page_heap/page_map.h"
#include "testing/fake_virtual_memory.h"
#include "testing/touch_watch.h"

namespace tcmalloc {

// A page map in memory that is zero-filled without being written.
class MappedPageMap {
 public:
  MappedPageMap() {
    void* const memory =
        mmap(nullptr, sizeof(PageMap), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TC_CHECK(memory != MAP_FAILED);
    page_map_ = static_cast<PageMap*>(memory);
  }
  MappedPageMap(const MappedPageMap&) = delete;
  MappedPageMap& operator=(const MappedPageMap&) = delete;
  ~MappedPageMap() { munmap(page_map_, sizeof(PageMap)); }
  PageMap& operator*() { return *page_map_; }

 private:
  PageMap* page_map_;
};

// The CPU on which the calling thread runs, as the central cache of a TestHeap sees it.
inline thread_local int test_processor = 0;

// The parts from the OS to the central cache.
struct TestHeap {
  static constexpr size_t kShards = ShardMap::kDefault;

  explicit TestHeap(size_t hardware_page_size = 4096)
      : vm({.hardware_page_size = hardware_page_size}),
        page_map(*mapped_page_map),
        arena(vm),
        page_heap(vm, page_map, arena),
        central(page_heap, page_map, arena, [] { return test_processor; }, kShards) {}

  // Watches the pages of all spans that the objects are in.
  void WatchSpansOf(TouchWatch* watch, const std::vector<void*>& objects) {
    std::set<Span*> spans;
    for (const void* const object : objects) spans.insert(SpanOf(object));
    for (const Span* const span : spans) watch->Watch(span->start_address(), span->bytes());
  }

  Span* SpanOf(const void* object) { return page_map.SpanOf(PageId::Containing(object)); }
  // The number of the shard that has the object's span.
  size_t ShardOf(const void* object) { return SpanOwner::Of(SpanOf(object)).shard(); }

  // Removes exactly `n` objects for a shard, in as many calls as this takes. Returns them in the
  // order of their use.
  std::vector<void*> Take(SizeClass c, size_t n, size_t shard = 0) {
    std::vector<void*> objects;
    while (objects.size() < n) {
      std::vector<void*> some(n - objects.size());
      some.resize(
          central.free_list(c).Remove(central.shards().Ensure(shard), some.data(), some.size()));
      TC_CHECK(!some.empty());
      objects.insert(objects.end(), some.rbegin(), some.rend());
    }
    return objects;
  }

  // Objects of class `c` in the central free list.
  size_t CentralObjects(SizeClass c) { return central.free_list(c).free_objects(); }
  // All objects of class `c`, in use or free.
  size_t AllObjects(SizeClass c) {
    return central.free_list(c).num_spans() * central.free_list(c).objects_per_span();
  }

  // Calls f(lock) for the locks of the central cache and of the page heap, in the order of the
  // ranks.
  template <typename F>
  void ForEachLock(F f) {
    central.ForEachLock(f);
    f(page_heap.lock());
  }

  // Aborts when an invariant of any part does not hold.
  void CheckInvariants() {
    central.CheckInvariants();
    page_heap.store()->CheckInvariants();
  }

  FakeVirtualMemory vm;
  MappedPageMap mapped_page_map;
  PageMap& page_map;
  MetadataArena arena;
  PageHeap page_heap;
  CentralCache central;
};

inline SizeClass ClassForSize(size_t size) { return kSizeClasses.ClassOf(size); }

// The pointer as messages about misuse print it.
inline std::string PointerText(const void* p) {
  char buffer[32];
  return std::string(TextWriter(buffer, sizeof(buffer)).Pointer(p).text());
}
// The line with which a wrong free aborts.
inline std::string FreeLine(const void* p, const std::string& what) {
  return "tcmalloc: free of " + PointerText(p) + ": " + what + "\n";
}
inline std::string DoubleFreeLine(const void* p, size_t size) {
  return FreeLine(p,
                  "double free, the object of " + std::to_string(size) + " bytes is already free");
}
#define EXPECT_MISUSE(statement, line) \
  EXPECT_EXIT(statement, testing::KilledBySignal(SIGABRT), testing::Eq<std::string>(line))

}  // namespace tcmalloc
