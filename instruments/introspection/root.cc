// SPDX-License-Identifier: BSD-3-Clause
// To publish a further field, add a line to its structure below.
// Length: the file is one table, which the compiler computes from functions that it evaluates here.
#include "instruments/introspection/root.h"

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/units.h"
#include "instruments/introspection/field_table.h"
#include "instruments/profiles/sampler.h"
#include "os/log.h"
#include "page_heap/retention.h"
#include "process/fast_path_data.h"
#include "process/heap.h"
#include "thread_cache/bin_policy.h"

namespace tcmalloc {
namespace {

constexpr void DescribePageMap(LayoutText& out) {
  out.Constant("page_shift", kPageShift);
  out.Constant("leaf_bits", PageMap::kLeafBits);
  // The unit of the distances in root_.
  out.Constant("leaf_distance_bytes", sizeof(ShortClass));
  {
    using T = PageMap;
    out.Struct("PageMap", sizeof(T));
    TC_FIELD(root_);
    TC_FIELD(empty_leaf_);
  }
  {
    using T = PageMap::Leaf;
    out.Struct("Leaf", sizeof(T));
    TC_FIELD(spans);
  }
}

constexpr void DescribeSpans(LayoutText& out) {
  out.Constant("SpanState.kSmall", static_cast<uint64_t>(SpanState::kSmall));
  out.Constant("SpanState.kLarge", static_cast<uint64_t>(SpanState::kLarge));
  out.Constant("SpanState.kFreeBacked", static_cast<uint64_t>(SpanState::kFreeBacked));
  out.Constant("SpanState.kFreeReleased", static_cast<uint64_t>(SpanState::kFreeReleased));
  out.Constant("SpanState.kReleasing", static_cast<uint64_t>(SpanState::kReleasing));
  out.Constant("SpanState.kKept", static_cast<uint64_t>(SpanState::kKept));
  out.Constant("SpanState.kMetadata", static_cast<uint64_t>(SpanState::kMetadata));
  out.Constant("owner_shard_bits", SpanOwner::kShardBits);
  out.Constant("owner_counted", SpanOwner::kCounted);
  {
    using T = Span;
    out.Struct("Span", sizeof(T));
    TC_FIELD(first_page);
    TC_FIELD(num_pages);
    TC_FIELD(free_bits);
    TC_FIELD(sample);
    TC_FIELD(state);
    TC_FIELD(sampled_class);
    TC_FIELD(owner);
    TC_FIELD(hole_pages);
    TC_FIELD(num_objects);
    TC_FIELD(free_count);
    TC_PART(list_node, ListNode);
    TC_FIELD(in_use.handed_out_ms);
  }
  {
    using T = ListNode<Span>;
    out.Struct("ListNode", sizeof(T));
    TC_FIELD(next);
  }
}

constexpr void DescribePageHeap(LayoutText& out) {
  out.Constant("hugepage_bytes", kHugepageSize);
  {
    using T = PageHeap;
    out.Struct("PageHeap", sizeof(T));
    TC_FIELD(granule_);
    TC_PART(state_, PageState);
  }
  {
    using T = PageState;
    out.Struct("PageState", sizeof(T));
    TC_PART(hints, PageHints);
    TC_PART(homes, SpanHomes);
    TC_NAMED("sampled_objects", sampled.of_class_, "");
    TC_LOCK(lock);
    TC_PART(store, SpanStore);
    TC_PART(governor, Governor);
    TC_PART(moves_in_flight, Change);
  }
  {
    using T = PageHints;
    out.Struct("PageHints", sizeof(T));
    TC_FIELD(in_use_bytes);
    TC_PART(retention, Retention);
  }
  {
    using T = MetadataArena;
    out.Struct("MetadataArena", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(mapped_bytes_);
  }
  {
    using T = MappedRanges;
    out.Struct("MappedRanges", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(first_ranges_);
    TC_FIELD(mapped_ranges_);
    TC_FIELD(size_);
    TC_FIELD(is_complete_);
  }
}

constexpr void DescribeRetention(LayoutText& out) {
  out.Constant("retention.floor_bytes", kRetentionFloorBytes);
  out.Constant("retention.in_use_part", kRetentionPart);
  out.Constant("retention.limit_part", kRetentionLimitPart);
  out.Constant("retention.thread_caches_part", kThreadCachesPart);
  out.Constant("retention.inherited_part", kInheritedPart);
  out.Constant("retention.free_pages_part", kFreePagesPart);
  out.Constant("retention.per_thread_cache_bytes", kPerThreadCacheBytes);
  out.Constant("retention.thread_caches_in_use_part", kThreadCachesInUsePart);
  {
    using T = Retention;
    out.Struct("Retention", sizeof(T));
    TC_FIELD(set_bytes_);
    TC_FIELD(limit_bytes_);
    TC_FIELD(pressure_level_);
    TC_FIELD(pressure_until_ms_);
  }
}

constexpr void DescribeSpanStore(LayoutText& out) {
  {
    using T = SpanStore;
    out.Struct("SpanStore", sizeof(T));
    TC_PART(counts, PageCounts);
    TC_PART(free_, FreeSpans);
    TC_FIELD(regions_);
    TC_NAMED("hugepages_advised", hugepages_.advised_, "");
  }
  {
    using T = PageCounts;
    out.Struct("PageCounts", sizeof(T));
    TC_FIELD(system_bytes);
    TC_FIELD(releasing_bytes);
    TC_FIELD(small_span_bytes);
    TC_FIELD(large_span_bytes);
    TC_FIELD(metadata_span_bytes);
    TC_FIELD(large_spans);
    TC_FIELD(growths);
    TC_FIELD(releases);
    TC_FIELD(released_total_bytes);
    TC_FIELD(commits);
    TC_FIELD(unmapped_total_bytes);
    TC_FIELD(unmapped_backed_bytes);
    TC_FIELD(hugepages_split);
    TC_FIELD(prefaults);
  }
  {
    using T = FreeSpans;
    out.Struct("FreeSpans", sizeof(T));
    TC_FIELD(exact_counts_);
    TC_FIELD(total_);
    TC_FIELD(count_);
  }
}

constexpr void DescribeLimits(LayoutText& out) {
  {
    using T = Governor;
    out.Struct("Governor", sizeof(T));
    TC_PART(limits_, MemoryLimits);
    TC_NAMED("limit_counts", watch_.counts_, "LimitCounts");
    TC_FIELD(hugepages_.mode);
  }
  {
    using T = MemoryLimits;
    out.Struct("MemoryLimits", sizeof(T));
    TC_FIELD(hard_bytes);
    TC_FIELD(soft_bytes);
  }
  {
    using T = LimitWatch::Counts;
    out.Struct("LimitCounts", sizeof(T));
    TC_FIELD(hits);
    TC_FIELD(released_bytes);
  }
}

constexpr void DescribeSpanHomes(LayoutText& out) {
  {
    using T = SpanHomes;
    out.Struct("SpanHomes", sizeof(T));
    TC_FIELD(last_added_);
  }
  {
    using T = SpanHome;
    out.Struct("SpanHome", sizeof(T));
    TC_PART(kept, SpanCache);
    TC_PART(pool, SpanPool);
    TC_FIELD(next);
  }
  {
    using T = SpanCache;
    out.Struct("SpanCache", sizeof(T));
    TC_FIELD(bytes_);
    TC_FIELD(counts_);
  }
  {
    using T = SpanPool;
    out.Struct("SpanPool", sizeof(T));
    TC_PART(spans_, FreeSpans);
    TC_FIELD(hidden_);
  }
}

constexpr void DescribeCentralCache(LayoutText& out) {
  out.Constant("size_classes", kNumSizeClasses);
  {
    using T = CentralCache;
    out.Struct("CentralCache", sizeof(T));
    TC_PART(shards_, ShardMap);
    TC_PART(free_lists_, CentralFreeList);
  }
  {
    using T = CentralFreeList;
    out.Struct("CentralFreeList", sizeof(T));
    TC_FIELD(object_size_);
    TC_FIELD(span_pages_);
    TC_FIELD(objects_per_span_);
  }
}

constexpr void DescribeShards(LayoutText& out) {
  {
    using T = ShardMap;
    out.Struct("ShardMap", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(shards_);
  }
  {
    using T = SpinLock;
    out.Struct("SpinLock", sizeof(T));
    TC_NAMED("state_", state_, "Lock");
  }
  {
    using T = ShardLocks;
    out.Struct("ShardLocks", sizeof(T));
    TC_PART(locks, SpinLock);
  }
  {
    using T = Shard;
    out.Struct("Shard", sizeof(T));
    TC_FIELD(locks_);
    TC_FIELD(spans_);
    TC_PART(home_, SpanHome);
  }
  {
    using T = ShardSpans;
    out.Struct("ShardSpans", sizeof(T));
    TC_FIELD(free_objects);
    TC_FIELD(num_spans);
    TC_FIELD(hole_pages);
  }
}

constexpr void DescribeHoles(LayoutText& out) {
  {
    using T = HoleRelease;
    out.Struct("HoleRelease", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(in_flight_);
    TC_FIELD(releases_);
    TC_FIELD(released_total_bytes_);
  }
  {
    using T = HoleClaims;
    out.Struct("HoleClaims", sizeof(T));
    TC_PART(list_node, ListNode);
    TC_FIELD(begin_);
    TC_FIELD(end_);
    TC_PART(entries_, HoleClaim);
  }
  {
    using T = HoleClaims::Entry;
    out.Struct("HoleClaim", sizeof(T));
    TC_FIELD(span);
    TC_FIELD(hole.first_object);
    TC_FIELD(hole.num_objects);
  }
}

constexpr void DescribeThreadCaches(LayoutText& out) {
  {
    using T = Registry;
    out.Struct("Registry", sizeof(T));
    TC_LOCK(lock_);
    TC_FIELD(caches_);
    TC_FIELD(orphans_);
    TC_FIELD(inherited_);
    TC_PART(all_, AllCaches);
    TC_NAMED("total_limit", budget_.total_, "");
  }
  {
    using T = AllCaches;
    out.Struct("AllCaches", sizeof(T));
    TC_FIELD(newest_);
    TC_FIELD(of_threads);
    TC_FIELD(orphans);
  }
  {
    using T = ThreadCache;
    out.Struct("ThreadCache", sizeof(T));
    TC_PART(list_node, ListNode);
    TC_FIELD(record.made_before);
    TC_PART(table_, BinTable);
    TC_FIELD(max_bytes_);
    TC_PART(changing_, Change);
    TC_FIELD(slot_);
    TC_NAMED("alarmed", countdown_.alarmed_, "");
    TC_NAMED("bytes_until_sample", table_.bins_.bytes_until_sample, "");
  }
  {
    using T = ThreadSlot;
    out.Struct("ThreadSlot", sizeof(T));
    TC_FIELD(busy);
  }
}

constexpr void DescribeBins(LayoutText& out) {
  out.Constant("max_bin_objects", kMaxBinObjects);
  {
    using T = BinTable;
    out.Struct("BinTable", sizeof(T));
    TC_NAMED("tops", bins_.tops, "");
    TC_FIELD(arrays_);
    TC_FIELD(array_bytes_);
  }
  {
    // The slots of the array follow the header.
    using T = BinArray;
    out.Struct("BinArray", sizeof(T));
    TC_FIELD(capacity);
    TC_FIELD(count);
  }
}

constexpr void DescribeObjectsInFlight(LayoutText& out) {
  // Records of objects in flight, on stacks (base/in_flight.h).
  out.Constant("in_flight_tag", InFlightMark::TagAt(0));
  out.Constant("in_flight_object_words", static_cast<uint64_t>(InFlightMark::Kind::kObjectWords));
  out.Constant("in_flight_bin_arrays", static_cast<uint64_t>(InFlightMark::Kind::kBinArrays));
  {
    using T = BinArraysInFlight;
    out.Struct("BinArraysInFlight", sizeof(T));
    TC_FIELD(chain);
  }
  {
    using T = ObjectWordsInFlight;
    out.Struct("ObjectWordsInFlight", sizeof(T));
    TC_FIELD(num_words);
    TC_FIELD(words);
  }
  {
    using T = ObjectWord;
    out.Struct("ObjectWord", sizeof(T));
    TC_FIELD(mask);
  }
}

constexpr void DescribePressure(LayoutText& out) {
  {
    using T = PressureCounts;
    out.Struct("PressureCounts", sizeof(T));
    TC_FIELD(sources);
    TC_FIELD(sources_failed);
    TC_FIELD(events);
    TC_FIELD(actions);
    TC_FIELD(moved_bytes);
  }
}

constexpr void DescribeControl(LayoutText& out) {
  {
    using T = Control;
    out.Struct("Control", sizeof(T));
    TC_PART(request_, ControlRequest);
    TC_PART(reply_, ControlReply);
    TC_FIELD(taken_);
    TC_FIELD(access_);
    TC_FIELD(listener_);
    TC_FIELD(sleep_word_);
  }
  {
    using T = ControlRequest;
    out.Struct("ControlRequest", sizeof(T));
    TC_FIELD(ticket);
    TC_FIELD(kind);
    TC_FIELD(check);
    TC_FIELD(text);
  }
  {
    using T = ControlReply;
    out.Struct("ControlReply", sizeof(T));
    TC_FIELD(ticket);
    TC_FIELD(status);
    TC_FIELD(bytes);
    TC_FIELD(before);
    TC_FIELD(after);
    TC_FIELD(message);
  }
}

// The settings that may change while the process runs (instruments/control/actions.cc): their
// values at the start, `settings`, and now, `present`.
constexpr void DescribeSettings(LayoutText& out) {
  using T = Heap;
  TC_FIELD(settings.aggressive_decommit);
  TC_FIELD(settings.guarded_sample);
  TC_FIELD(settings.hard_limit_bytes);
  TC_FIELD(settings.large_report_threshold_bytes);
  TC_FIELD(settings.max_total_thread_cache_bytes);
  TC_FIELD(settings.release_rate);
  TC_FIELD(settings.retention_bytes);
  TC_FIELD(settings.sample_period_bytes);
  TC_FIELD(settings.soft_limit.bytes);
  TC_FIELD(settings.soft_limit.percent);
  TC_NAMED("present.releasing", page_heap.state_.hints.releasing, "");
  TC_NAMED("present.guarded_sample", guarded.every, "");
  TC_NAMED("present.large_report_threshold", large_reports.first_threshold_, "");
  TC_NAMED("present.max_total_was_set", registry.total_was_set_, "");
  TC_NAMED("present.release_rate", page_heap.state_.hints.release_rate, "");
  TC_NAMED("present.soft_limit_percent", container_share.percent, "");
}

constexpr void DescribeHeap(LayoutText& out) {
  // CLOCK_MONOTONIC_COARSE: the clock of all times in milliseconds.
  out.Constant("clock", 6);
  // The sampling interval of guarded samples and of TCMALLOC_PROFILE, without
  // TCMALLOC_SAMPLE_PARAMETER.
  out.Constant("default_sample_period", kDefaultSamplePeriod);
  out.Constant("Releasing.kEager", static_cast<uint64_t>(Releasing::kEager));
  out.Constant("Releasing.kNever", static_cast<uint64_t>(Releasing::kNever));
  {
    using T = Heap;
    out.Struct("Heap", sizeof(T));
    TC_FIELD(settings.given);
    TC_PART(arena, MetadataArena);
    TC_PART(page_heap, PageHeap);
    TC_PART(central, CentralCache);
    TC_PART(holes, HoleRelease);
    TC_PART(registry, Registry);
    TC_NAMED("large_allocations", large_reports.allocations_, "");
    TC_NAMED("large_reports", large_reports.reports_, "");
    TC_NAMED("sample_period", sampling.period_, "");
    TC_FIELD(guarded.pool_start);
    TC_FIELD(guarded.pool_bytes);
    TC_FIELD(guarded.pool);
    TC_FIELD(guarded.object_bytes);
    TC_FIELD(guarded.page_bytes);
    TC_FIELD(guarded.record_bytes);
    TC_PART(pressure_counts, PressureCounts);
    TC_PART(control, Control);
    TC_NAMED("mapped", virtual_memory.mapped_, "MappedRanges");
    TC_NAMED("now_ms", page_heap.state_.governor.latest_ms_, "");
    DescribeSettings(out);
  }
}

constexpr void Describe(LayoutText& out) {
  DescribeHeap(out);
  DescribePageMap(out);
  DescribeSpans(out);
  DescribePageHeap(out);
  DescribeRetention(out);
  DescribeSpanStore(out);
  DescribeLimits(out);
  DescribeSpanHomes(out);
  DescribeCentralCache(out);
  DescribeShards(out);
  DescribeHoles(out);
  DescribeThreadCaches(out);
  DescribeBins(out);
  DescribeObjectsInFlight(out);
  DescribePressure(out);
  DescribeControl(out);
}

// It is not const, so that it is in writable memory.
constinit auto layout_text = MakeLayoutText<&Describe>();

}  // namespace

// The debug libraries have one that is not weak (debug_layout.cc).
constinit __attribute__((weak)) DebugLayout debug_layout = {};

namespace {

// The symbol is local to this file, so it is not the root of another loaded copy.
[[gnu::used]] constinit IntrospectionRoot root asm("tcmalloc_introspection_root") = {
    .magic = {'T', 'C', 'M', 'R', 'O', 'O', 'T', '\n'},
    .format = IntrospectionRoot::kFormat,
    .pointer_bytes = sizeof(void*),
    .root_bytes = sizeof(IntrospectionRoot),
    .version = TCMALLOC_VERSION,
    .self = &root,
    .layout = layout_text.data(),
    .layout_bytes = layout_text.size(),
    .samples = &sample_layout,
    .heap = global_heap_storage,
    .heap_exists = &heap_exists,
    .page_map = &global_page_map,
    .abort_line = abort_line,
    .debug = &debug_layout,
};

}  // namespace

extern "C" TC_EXPORT IntrospectionRoot tcmalloc_introspection TC_ALIAS(tcmalloc_introspection_root);

// At most 11 KiB, with the parts of sample_layout.cc and debug_layout.cc.
static_assert(sizeof(layout_text) + sizeof(IntrospectionRoot) <= 7_KiB);

}  // namespace tcmalloc

// The note: the sizes of the name and the contents, the type, the name, the contents.
asm(R"(
  .pushsection .note.tcmalloc, "a", %note
  .balign 4
  .long 9, 4, 1
  .asciz "TCMalloc"
  .balign 4
  .long tcmalloc_introspection_root - .
  .balign 4
  .popsection
)");
