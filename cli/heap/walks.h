// SPDX-License-Identifier: BSD-3-Clause
// Walks over the lists of a target's heap. Each is bounded, in bytes and in elements, and checks
// for cycles: a list that does not end throws BadImage.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_set>
#include <vector>

#include "heap/record.h"

namespace cli {

// Libraries have fewer classes, and records of stacks fewer frames.
constexpr size_t kMaxClasses = 1024;
constexpr size_t kMaxFrames = 1024;
// The bits of a word in a bitmap of a 64-bit target.
constexpr size_t kBitsPerWord = 64;

// Counts the elements of a list, each of `bytes` bytes.
class SeenElements {
 public:
  explicit SeenElements(size_t bytes) : bytes_(bytes) {}

  void Add(Address address);

 private:
  const size_t bytes_;
  std::unordered_set<Address> seen_;
};

// Calls f for the elements of an intrusive list of records of `structure`, which have a list_node.
void ForEachInList(const Target& target, std::string_view structure, Address first,
                   const std::function<void(const Record&)>& f);

// The holder of a thread cache: a thread; a thread of the parent process; none (a thread that ended
// left the cache, or it is being created).
enum class CacheHolder { kThread, kOrphan, kNobody };

void ForEachCache(const Record& registry,
                  const std::function<void(const Record& cache, CacheHolder holder)>& f);

// All existing shards of the ShardMap.
std::vector<Record> LoadShards(const Record& shard_map);
// Returns the ShardSpans of the shard for class `c`; 0 if there is none.
Address SpansOf(const Record& shard, size_t c);
// The homes of the page heap: SpanHome records.
std::vector<Record> LoadHomes(const Record& page_state);

// The number of objects in bin `c` of a BinTable; 0 while its array is being replaced.
size_t BinObjects(const Record& table, size_t c);

}  // namespace cli
