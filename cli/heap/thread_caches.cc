// SPDX-License-Identifier: BSD-3-Clause
#include "heap/thread_caches.h"

#include <algorithm>
#include <utility>

#include "heap/walks.h"

namespace cli {
namespace {

// Returns the mapping of the address; null if there is none.
const Mapping* MappingOf(const std::vector<Mapping>& mappings, Address address) {
  const auto after =
      std::upper_bound(mappings.begin(), mappings.end(), address,
                       [](Address a, const Mapping& mapping) { return a < mapping.end; });
  return after != mappings.end() && after->start <= address ? &*after : nullptr;
}

// Returns the thread whose stack pointer is the last one before the slot, in the same mapping.
pid_t ThreadBefore(const Mapping& mapping, Address slot, const std::vector<ThreadStack>& stacks) {
  const auto after = std::upper_bound(
      stacks.begin(), stacks.end(), slot,
      [](Address address, const ThreadStack& stack) { return address < stack.pointer; });
  if (after == stacks.begin()) return 0;
  const ThreadStack& before = *std::prev(after);
  return before.pointer >= mapping.start ? before.thread : 0;
}

}  // namespace

std::vector<CacheInfo> ReadThreadCaches(const Target& target) {
  const size_t classes = target.layout().constant("size_classes");
  if (classes > kMaxClasses) throw BadImage("the process's library has too many size classes");
  std::vector<uint64_t> class_bytes(classes);
  const Record central = target.LoadHeap().Part("central");
  for (size_t c = 1; c < classes; ++c) {
    class_bytes[c] = central.Part("free_lists_", c).Get("object_size_");
  }
  std::vector<CacheInfo> caches;
  ForEachCache(target.LoadHeap().Part("registry"), [&](const Record& cache, CacheHolder holder) {
    CacheInfo info{.address = cache.address(),
                   .holder = holder,
                   .slot = cache.Get("slot_"),
                   .limit_bytes = cache.Get("max_bytes_")};
    const Record table = cache.Part("table_");
    for (size_t c = 1; c < classes; ++c) {
      const uint64_t objects = BinObjects(table, c);
      info.objects += objects;
      info.bytes += objects * class_bytes[c];
    }
    caches.push_back(info);
  });
  return caches;
}

void NameThreads(pid_t main_thread, const std::vector<Mapping>& mappings,
                 const std::vector<ThreadStack>& stacks, std::vector<KnownThread>* known,
                 std::vector<CacheInfo>* caches) {
  std::vector<KnownThread> now;
  CacheInfo* unnamed = nullptr;
  size_t num_unnamed = 0;
  bool main_is_named = false;
  for (CacheInfo& cache : *caches) {
    if (cache.holder != CacheHolder::kThread) continue;
    const Mapping* const mapping = MappingOf(mappings, cache.slot);
    if (mapping != nullptr) cache.thread = ThreadBefore(*mapping, cache.slot, stacks);
    if (cache.thread == 0) {
      const auto before = std::find_if(known->begin(), known->end(), [&cache](const auto& entry) {
        return entry.cache == cache.address;
      });
      if (before != known->end()) cache.thread = before->thread;
    }
    if (cache.thread == 0) {
      unnamed = &cache;
      ++num_unnamed;
    }
    main_is_named |= cache.thread == main_thread;
  }
  // The main thread's thread-local memory is in no stack.
  if (num_unnamed == 1 && !main_is_named) unnamed->thread = main_thread;
  for (const CacheInfo& cache : *caches) {
    if (cache.thread != 0) now.push_back({cache.address, cache.thread});
  }
  *known = std::move(now);
}

}  // namespace cli
