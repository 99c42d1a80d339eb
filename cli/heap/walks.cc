// SPDX-License-Identifier: BSD-3-Clause
#include "heap/walks.h"

#include <fmt/format.h>

#include <utility>

namespace cli {

namespace {

// The lists of a heap have fewer elements than this.
constexpr size_t kMostElements = 1'000'000;
constexpr size_t kMostBytes = size_t{1} << 30;
// The bins of a thread cache have fewer slots.
constexpr uint64_t kMostBinObjects = uint64_t{1} << 16;

}  // namespace

void SeenElements::Add(Address address) {
  if (!seen_.insert(address).second) {
    throw BadImage(fmt::format("a list of the heap has the element {:#x} twice", address));
  }
  if (seen_.size() > kMostElements || seen_.size() * bytes_ > kMostBytes) {
    throw BadImage("a list of the heap does not end");
  }
}

void ForEachInList(const Target& target, std::string_view structure, Address first,
                   const std::function<void(const Record&)>& f) {
  SeenElements seen(target.layout().structure(structure).bytes);
  for (Address at = first; at != 0;) {
    seen.Add(at);
    const Record record = target.Load(structure, at);
    f(record);
    at = record.Part("list_node").Get("next");
  }
}

void ForEachCache(const Record& registry,
                  const std::function<void(const Record& cache, CacheHolder holder)>& f) {
  constexpr std::pair<std::string_view, CacheHolder> kLists[] = {
      {"caches_", CacheHolder::kThread},
      {"orphans_", CacheHolder::kOrphan},
      {"inherited_", CacheHolder::kNobody},
  };
  for (const auto& [list, holder] : kLists) {
    ForEachInList(registry.target(), "ThreadCache", registry.Get(list),
                  [&f, holder](const Record& cache) { f(cache, holder); });
  }
}

std::vector<Record> LoadShards(const Record& shard_map) {
  const size_t pointer = shard_map.target().pointer_bytes();
  std::vector<Record> shards;
  SeenElements seen(shard_map.target().layout().structure("Shard").bytes);
  for (size_t i = 0; i < shard_map.ArraySize("shards_", pointer); ++i) {
    const Address address = shard_map.At("shards_", i, pointer);
    if (address == 0) continue;
    seen.Add(address);
    shards.push_back(shard_map.target().Load("Shard", address));
  }
  return shards;
}

Address SpansOf(const Record& shard, size_t c) {
  return shard.At("spans_", c, shard.target().pointer_bytes());
}

std::vector<Record> LoadHomes(const Record& page_state) {
  std::vector<Record> homes;
  SeenElements seen(page_state.target().layout().structure("SpanHome").bytes);
  for (Address at = page_state.Part("homes").Get("last_added_"); at != 0;) {
    seen.Add(at);
    homes.push_back(page_state.target().Load("SpanHome", at));
    at = homes.back().Get("next");
  }
  return homes;
}

size_t BinObjects(const Record& table, size_t c) {
  const Target& target = table.target();
  const size_t pointer = target.pointer_bytes();
  const Address array = table.At("arrays_", c, pointer);
  if (array == 0) return 0;
  const Address top = table.At("tops", c, pointer);
  const Address slots = array + target.layout().structure("BinArray").bytes;
  const uint64_t objects = (top - slots) / pointer;
  const uint64_t most = target.layout().constant("max_bin_objects");
  if (most > kMostBinObjects) throw BadImage("the process's library has bins that are too large");
  return objects > most ? 0 : objects;
}

}  // namespace cli
