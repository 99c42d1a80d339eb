// SPDX-License-Identifier: BSD-3-Clause
#include "heap/memory_use.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "heap/walks.h"

namespace cli {
namespace {

class UseReader {
 public:
  UseReader(const HeapObjects& objects, const Statistics& stats, ResidentPages& pages)
      : objects_(objects), layout_(objects.target().layout()), stats_(stats), pages_(pages) {}

  HeapUse Read() {
    objects_.ForEachSpanWhileRunning(
        [this](const SpanInfo& span) { AddSpan(span); },
        [this](Address start, uint64_t bytes) { use_.unsettled += pages_.Take(start, bytes); });
    for (auto& [size_class, shards] : classes_) {
      std::vector<ClassInShard> of_class;
      for (const auto& [number, shard] : shards) of_class.push_back(shard);
      AddClassUse(stats_.classes[size_class], of_class, &use_);
    }
    AddGuarded();
    AddLeaves();
    AddArena();
    return std::move(use_);
  }

 private:
  void AddSpan(const SpanInfo& span) {
    const uint64_t resident = pages_.Take(span.start, span.bytes);
    records_.push_back(span.record);
    AddLeafOf(span);
    if (span.large) {
      const uint64_t in_use = std::min(resident, span.object_bytes);
      use_.in_use += in_use;
      use_.untouched += span.object_bytes - in_use;
      use_.sampled_spans += resident - in_use;
    } else if (span.size_class != 0 && span.size_class < stats_.classes.size()) {
      AddSmall(span, resident);
    } else if (span.size_class != 0) {
      use_.unsettled += resident;
    } else {
      *SumOf(span) += resident;
    }
  }

  // Guarded objects are on separate pages, which are in no span. Pages of freed ones were released.
  void AddGuarded() {
    const GuardedPool& guarded = objects_.guarded();
    for (const GuardedSlot& object : guarded.slots()) {
      if (!object.in_use()) continue;
      const uint64_t resident = pages_.Take(object.pages, object.page_bytes);
      const uint64_t in_use = std::min(resident, object.object_bytes());
      use_.in_use += in_use;
      use_.untouched += object.object_bytes() - in_use;
      use_.sampled_spans += resident - in_use;
    }
    use_.metadata += pages_.Take(guarded.records(), guarded.record_bytes());
  }

  void AddLeafOf(const SpanInfo& span) {
    const uint64_t number =
        span.start >> layout_.constant("page_shift") >> layout_.constant("leaf_bits");
    if (std::exchange(last_leaf_, number) == number) return;
    if (const Address leaf = objects_.LeafOf(span.start)) leaves_.insert(leaf);
  }

  void AddSmall(const SpanInfo& span, uint64_t resident) {
    ClassInShard& shard = classes_[span.size_class][span.shard];
    const uint64_t used_objects = span.num_objects - span.free_objects;
    // Objects are first handed out in the order of their addresses, so memory that is not resident
    // was never used.
    const uint64_t used = std::min(resident, used_objects * span.object_bytes);
    ++shard.spans;
    shard.used_objects += used_objects;
    shard.used_resident_bytes += used;
    shard.free_resident_bytes += resident - used;
    if (span.free_objects == 0) return;
    try {
      objects_.ForEachFreePages(span, [this](Address start, uint64_t bytes) {
        use_.whole_free_pages += pages_.Count(start, bytes);
      });
    } catch (const BadImage&) {
      // The span has changed. That is tolerable, since the figure is only a hint.
    }
  }

  void AddLeaves() {
    const uint64_t bytes = layout_.structure("Leaf").bytes;
    for (const Address leaf : leaves_) use_.metadata += pages_.Take(leaf, bytes);
  }

  // The arena's records are outside of the heap's regions. The kernel may have joined their
  // mappings with others of the program, so the arena's own count is a bound.
  void AddArena() {
    const Target& target = objects_.target();
    const Record heap = target.LoadHeap();
    ForEachCache(heap.Part("registry"), [this](const Record& cache, CacheHolder) {
      const Record table = cache.Part("table_");
      const size_t pointer = table.target().pointer_bytes();
      records_.push_back(cache.address());
      for (size_t c = 1; c < table.ArraySize("arrays_", pointer); ++c) {
        records_.push_back(table.At("arrays_", c, pointer));
      }
    });
    for (const Record& shard : LoadShards(heap.Part("central").Part("shards_"))) {
      records_.push_back(shard.address());
    }
    std::sort(records_.begin(), records_.end());
    uint64_t left = heap.Part("arena").Get("mapped_bytes_");
    for (size_t i = 0; i < pages_.mappings().size() && left > 0; ++i) {
      const Mapping& mapping = pages_.mappings()[i].mapping;
      const auto first = std::lower_bound(records_.begin(), records_.end(), mapping.start);
      if (first == records_.end() || *first >= mapping.end || !mapping.name.empty()) continue;
      const uint64_t bytes = std::min(pages_.Left(i), left);
      pages_.TakeFrom(i, bytes);
      use_.metadata += bytes;
      left -= bytes;
    }
  }

  uint64_t* SumOf(const SpanInfo& span) {
    const std::pair<const char*, uint64_t*> kinds[] = {
        {"SpanState.kFreeBacked", &use_.free_pages},
        {"SpanState.kFreeReleased", &use_.released},
        {"SpanState.kReleasing", &use_.releasing},
        {"SpanState.kKept", &use_.kept_spans},
        {"SpanState.kMetadata", &use_.metadata},
        {"SpanState.kSmall", &use_.kept_spans},  // without a size class: kept
    };
    for (const auto& [name, sum] : kinds) {
      if (layout_.constant(name) == span.state) return sum;
    }
    return &use_.unsettled;
  }

  const HeapObjects& objects_;
  const Layout& layout_;
  const Statistics& stats_;
  ResidentPages& pages_;
  HeapUse use_;
  std::vector<Address> records_;
  std::set<Address> leaves_;         // of the page map
  uint64_t last_leaf_ = UINT64_MAX;  // the number of the last leaf that was looked up
  std::map<size_t, std::map<size_t, ClassInShard>> classes_;
};

}  // namespace

void AddClassUse(const SizeClassStatistics& stats, const std::vector<ClassInShard>& shards,
                 HeapUse* use) {
  ClassUse of_class{.object_bytes = stats.object_bytes};
  ClassInShard all;
  for (const ClassInShard& shard : shards) {
    const uint64_t per_span = std::max<uint64_t>(stats.objects_per_span, 1);
    const uint64_t packed_spans = (shard.used_objects + per_span - 1) / per_span;
    const uint64_t used = shard.used_objects * stats.object_bytes;
    const uint64_t packed_free =
        packed_spans * stats.span_bytes - std::min(used, packed_spans * stats.span_bytes);
    const uint64_t partial = std::min(packed_free, shard.free_resident_bytes);
    of_class.partial_spans += partial;
    of_class.fragmentation += shard.free_resident_bytes - partial;
    all.used_objects += shard.used_objects;
    all.used_resident_bytes += shard.used_resident_bytes;
  }
  // Memory that was never touched is first attributed to objects in caches, since caches fetch
  // batches before they are needed.
  const uint64_t used = all.used_objects * stats.object_bytes;
  const uint64_t cached = std::min(stats.cached_objects * stats.object_bytes, used);
  const uint64_t untouched = used - std::min(used, all.used_resident_bytes);
  const uint64_t cached_resident = cached - std::min(cached, untouched);
  of_class.in_use = all.used_resident_bytes - cached_resident;
  use->thread_caches += cached_resident;
  use->untouched += untouched - std::min(untouched, cached);
  use->in_use += of_class.in_use;
  use->fragmentation += of_class.fragmentation;
  use->partial_spans += of_class.partial_spans;
  use->classes.push_back(of_class);
}

HeapUse ReadHeapUse(const Target& target, const Statistics& stats, ResidentPages& pages) {
  pages.PutBack();
  const HeapObjects objects(target);
  return UseReader(objects, stats, pages).Read();
}

namespace {

constexpr size_t kLargest = 3;

// Whether a mapping with the name of a file is memory that is on no disk.
bool IsSharedMemory(const Mapping& mapping) {
  constexpr std::array<std::string_view, 5> kPrefixes = {"/memfd:", "/dev/shm/", "/SYSV",
                                                         "/dev/zero", "[anon_shmem:"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&mapping](std::string_view prefix) {
    return mapping.name.starts_with(prefix);
  });
}

std::vector<NamedBytes> Largest(const std::map<std::string, uint64_t>& sums) {
  std::vector<NamedBytes> largest;
  for (const auto& [name, bytes] : sums) largest.push_back({name, bytes});
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (largest.size() > kLargest) largest.resize(kLargest);
  return largest;
}

bool IsFile(const std::string& name) {
  return name.starts_with('/') || name == "[vdso]" || name.starts_with("[vvar");
}

// The variables of a file without initial values follow its mapping.
bool IsRestOf(const Mapping& file, const Mapping& mapping) {
  return IsFile(file.name) && !IsSharedMemory(file) && file.writable && mapping.writable &&
         mapping.name.empty() && file.end == mapping.start;
}

std::string NameOf(const Mapping& mapping) {
  return mapping.name.empty() ? fmt::format("{:#x}", mapping.start) : mapping.name;
}

}  // namespace

ProcessUse ReadProcessUse(ResidentPages& pages, const ThreadFacts& threads) {
  ProcessUse use;
  std::vector<Mapping> mappings;
  for (const MappingUse& each : pages.mappings()) mappings.push_back(each.mapping);
  for (const size_t i : StacksAmong(mappings, threads.stacks, threads.threads)) {
    const Mapping& mapping = mappings[i];
    // The kernel may have joined a thread's stack with memory after it.
    const uint64_t most = mapping.name == "[stack]" ? UINT64_MAX : threads.stack_bytes;
    const uint64_t bytes = std::min(mapping.end - mapping.start, most);
    const uint64_t stack = std::min(pages.Count(mapping.start, bytes), pages.Left(i));
    pages.TakeFrom(i, stack);
    use.stacks += stack;
    ++use.num_stacks;
  }
  std::map<std::string, uint64_t> files;
  std::map<std::string, uint64_t> file_data;
  std::map<std::string, uint64_t> shared;
  std::map<std::string, uint64_t> anonymous;
  for (size_t i = 0; i < mappings.size(); ++i) {
    const MappingUse& mapping = pages.mappings()[i];
    const uint64_t left = pages.Left(i);
    use.hugetlb += mapping.hugetlb_bytes;
    if (left == 0) continue;
    const std::string& name = mapping.mapping.name;
    if (IsSharedMemory(mapping.mapping)) {
      use.shared += left;
      shared[name] += left;
    } else if (i > 0 && IsRestOf(mappings[i - 1], mapping.mapping)) {
      use.file_data += left;
      file_data[mappings[i - 1].name] += left;
    } else if (IsFile(name)) {
      const uint64_t data = std::min(mapping.anonymous_bytes, left);
      use.file_data += data;
      use.files += left - data;
      if (left > data) files[name] += left - data;
      if (data > 0) file_data[name] += data;
    } else {
      const uint64_t lazy = std::min(mapping.lazily_freed_bytes, left);
      use.lazily_freed += lazy;
      use.anonymous += left - lazy;
      use.anonymous_hugepages += std::min(mapping.hugepage_bytes, left - lazy);
      if (left > lazy) anonymous[NameOf(mapping.mapping)] += left - lazy;
    }
  }
  use.largest_files = Largest(files);
  use.largest_file_data = Largest(file_data);
  use.largest_shared = Largest(shared);
  use.largest_anonymous = Largest(anonymous);
  return use;
}

ProcessFigures ReadProcessFigures(pid_t pid, const Target* target) {
  const auto info = ReadProcessInfo(pid);
  if (!info.has_value() || info->is_zombie()) {
    throw Failure(fmt::format("process {} has ended", pid));
  }
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  ProcessFigures reading{.time_ms = int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000,
                         .info = *info};
  if (target != nullptr && target->HasHeap()) reading.stats = ReadStatistics(*target);
  return reading;
}

}  // namespace cli
