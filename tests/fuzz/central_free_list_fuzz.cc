// SPDX-License-Identifier: BSD-3-Clause
// Any sequence of removals and insertions on a central free list beside a naive model: the set of
// objects that are out. No object is out twice, and when all are back the page heap has every page
// again.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <set>
#include <vector>

#include "base/check.h"
#include "central/central_free_list.h"

namespace {

using namespace tcmalloc;

struct World {
  World() {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      lists.push_back(new CentralFreeList(static_cast<SizeClass>(i), shards, heap, map, arena));
    }
  }
  SystemVirtualMemory vm;
  MetadataArena arena{vm};
  PageMap& map = *new (mmap(nullptr, sizeof(PageMap), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) PageMap;
  PageHeap heap{vm, map, arena};
  ShardMap shards{heap, arena, [] { return 0; }, 1};
  std::vector<CentralFreeList*> lists;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World& world = *new World;
  if (size < 2) return 0;
  CentralFreeList& list = *world.lists[data[0] % world.lists.size()];
  Shard& own = world.shards.Current();
  std::vector<void*> out;
  std::set<void*> is_out;
  for (size_t i = 1; i < size; ++i) {
    void* objects[128];
    const size_t n = 1 + data[i] % 128;
    if (data[i] & 0x80) {
      const size_t taken = list.Remove(own, objects, n);
      TC_CHECK(taken >= 1 && taken <= n);
      for (size_t j = 0; j < taken; ++j) {
        TC_CHECK(is_out.insert(objects[j]).second);
        out.push_back(objects[j]);
      }
    } else {
      // Every third one, so that spans are left with holes.
      size_t count = 0;
      for (size_t j = 0; j < out.size() && count < n; j += 3) {
        objects[count++] = out[j];
        is_out.erase(out[j]);
        out[j] = nullptr;
      }
      out.erase(std::remove(out.begin(), out.end(), nullptr), out.end());
      list.Insert(own, objects, count);
    }
  }
  list.CheckInvariants();
  list.Insert(own, out.data(), out.size());
  list.CheckInvariants();
  TC_CHECK(list.num_spans() == 0 && list.free_objects() == 0);
  TC_CHECK(world.heap.GetStats().small_span_bytes == 0);
  world.heap.CheckInvariants();
  return 0;
}
