// SPDX-License-Identifier: BSD-3-Clause
// The table of properties, and the functions of include/tcmalloc/tcmalloc.h for them. All values of
// a list come from the same HeapStats.
#include <algorithm>
#include <cstdint>

#include "base/compiler.h"
#include "base/units.h"
#include "instruments/guard/guarded_objects.h"
#include "instruments/profiles/sampler.h"
#include "malloc/properties.h"
#include "os/errno_keeper.h"
#include "process/heap.h"
#include "process/limits.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

// Larger values have the same effect as this one, and sums with it do not overflow.
constexpr size_t kMaxCacheBytes =
    static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 50, SIZE_MAX / 2));

size_t Zero(const HeapStats&) { return 0; }

bool SetMaxThreadCaches(Heap& heap, size_t value) {
  heap.registry.SetTotalLimit(std::min(value, kMaxCacheBytes));
  return true;
}

bool SetMinThreadCache(Heap& heap, size_t value) {
  heap.registry.SetMinPerCache(std::min(value, kMaxCacheBytes));
  return true;
}

// If releasing is turned off, only 0 is accepted.
bool SetAggressiveDecommit(Heap& heap, size_t value) {
  using Releasing = Releasing;
  if (heap.page_heap.hints().releasing.value() == Releasing::kNever) return value == 0;
  heap.page_heap.governor()->SetReleasing(value != 0 ? Releasing::kEager : Releasing::kByPolicy);
  return true;
}

bool SetHeapLimit(Heap& heap, size_t mebibytes) {
  const bool none = mebibytes == 0 || mebibytes > kNoLimit / 1_MiB;
  SetMemoryLimit(heap, LimitKind::kHard, none ? kNoLimit : mebibytes * 1_MiB);
  return true;
}

// The parts of the statistics that a property reads.
constexpr uint8_t kNothing = 0;
constexpr uint8_t kPages = StatsParts::kPages;
constexpr uint8_t kClasses = StatsParts::kClasses;
constexpr uint8_t kCaches = StatsParts::kCaches;
constexpr uint8_t kCacheCount = StatsParts::kCacheCount;
constexpr uint8_t kSettings = StatsParts::kSettings;
constexpr uint8_t kObjects = kPages | kClasses | kCaches;
constexpr uint8_t kUnmapped = kPages | StatsParts::kHoles;

constexpr Property kProperties[] = {
    // gperftools' properties. heap_size = current_allocated_bytes + the four _free_bytes +
    // pageheap_unmapped_bytes.
    {"generic.current_allocated_bytes", kObjects, &Figure<&HeapStats::in_use_bytes>},
    {"generic.heap_size", kPages, &Figure<&HeapStats::system_bytes>},
    {"generic.total_physical_bytes", kUnmapped, &Figure<&HeapStats::actual_bytes>},
    {"tcmalloc.central_cache_free_bytes", kUnmapped | kClasses,
     &Figure<&HeapStats::free_in_spans_bytes>},
    // There are no transfer caches.
    {"tcmalloc.transfer_cache_free_bytes", kNothing, &Zero},
    {"tcmalloc.thread_cache_free_bytes", kPages | kCaches, &Figure<&HeapStats::thread_cache_bytes>},
    {"tcmalloc.pageheap_free_bytes", kPages, &Figure<&HeapStats::page_heap_free_bytes>},
    {"tcmalloc.pageheap_unmapped_bytes", kUnmapped, &Figure<&HeapStats::unmapped_bytes>},
    {"tcmalloc.slack_bytes", kUnmapped,
     [](const HeapStats& s) { return s.page_heap_free_bytes + s.unmapped_bytes(); }},
    {"tcmalloc.pageheap_committed_bytes", kUnmapped,
     [](const HeapStats& s) { return s.system_bytes - s.unmapped_bytes(); }},
    {"tcmalloc.pageheap_scavenge_count", kPages, &Figure<&HeapStats::releases>},
    // Memory: committed_bytes = total_commit_bytes - total_decommit_bytes.
    {"tcmalloc.pageheap_commit_count", kPages, &Figure<&HeapStats::commits>},
    {"tcmalloc.pageheap_total_commit_bytes", kUnmapped, &Figure<&HeapStats::committed_total_bytes>},
    {"tcmalloc.pageheap_decommit_count", kPages, &Figure<&HeapStats::releases>},
    {"tcmalloc.pageheap_total_decommit_bytes", kPages, &Figure<&HeapStats::released_total_bytes>},
    // Address space.
    {"tcmalloc.pageheap_reserve_count", kPages, &Figure<&HeapStats::growths>},
    {"tcmalloc.pageheap_total_reserve_bytes", kPages, &Figure<&HeapStats::reserved_total_bytes>},
    {"tcmalloc.current_total_thread_cache_bytes", kPages | kCaches,
     &Figure<&HeapStats::thread_cache_bytes>},
    {"tcmalloc.impl.thread_cache_count", kCacheCount, &Figure<&HeapStats::thread_caches>},
    {"tcmalloc.max_total_thread_cache_bytes", kSettings,
     &Figure<&HeapStats::thread_cache_limit_bytes>, &SetMaxThreadCaches},
    {"tcmalloc.min_per_thread_cache_bytes", kSettings, &Figure<&HeapStats::min_thread_cache_bytes>,
     &SetMinThreadCache},
    {"tcmalloc.aggressive_memory_decommit", kSettings, &Figure<&HeapStats::releases_at_once>,
     &SetAggressiveDecommit},
    {"tcmalloc.heap_limit_mb", kPages,
     [](const HeapStats& s) {
       return s.limits.hard_bytes == kNoLimit ? 0 : s.limits.hard_bytes / 1_MiB;
     },
     &SetHeapLimit},
    {"tcmalloc.sample_parameter", kSettings, &Figure<&HeapStats::sample_period_bytes>,
     &SetSamplePeriod},

    // Google's properties. A limit that is not set is the largest number.
    {"generic.bytes_in_use_by_app", kObjects, &Figure<&HeapStats::in_use_bytes>},
    {"generic.physical_memory_used", kUnmapped, &Figure<&HeapStats::actual_bytes>},
    {"generic.virtual_memory_used", kPages, &Figure<&HeapStats::virtual_bytes>},
    {"tcmalloc.central_cache_free", kUnmapped | kClasses, &Figure<&HeapStats::free_in_spans_bytes>},
    {"tcmalloc.transfer_cache_free", kNothing, &Zero},
    {"tcmalloc.thread_cache_free", kPages | kCaches, &Figure<&HeapStats::thread_cache_bytes>},
    {"tcmalloc.thread_cache_count", kCacheCount, &Figure<&HeapStats::thread_caches>},
    // There are no per-CPU caches.
    {"tcmalloc.cpu_free", kNothing, &Zero},
    {"tcmalloc.per_cpu_caches_active", kNothing, &Zero},
    {"tcmalloc.page_heap_free", kPages, &Figure<&HeapStats::page_heap_free_bytes>},
    {"tcmalloc.page_heap_unmapped", kUnmapped, &Figure<&HeapStats::unmapped_bytes>},
    {"tcmalloc.metadata_bytes", kPages, &Figure<&HeapStats::metadata_bytes>},
    {"tcmalloc.external_fragmentation_bytes", kUnmapped | kObjects,
     [](const HeapStats& s) { return s.actual_bytes() - s.in_use_bytes; }},
    {"tcmalloc.hard_usage_limit_bytes", kPages,
     [](const HeapStats& s) { return s.limits.hard_bytes; }},
    {"tcmalloc.hard_limit_hits", kPages, [](const HeapStats& s) { return s.hard_limit.hits; }},
    {"tcmalloc.desired_usage_limit_bytes", kPages,
     [](const HeapStats& s) { return s.limits.soft_bytes; }},
    {"tcmalloc.soft_limit_hits", kPages, [](const HeapStats& s) { return s.soft_limit.hits; }},
    {"tcmalloc.num_released_total_bytes", kPages, &Figure<&HeapStats::released_total_bytes>},

    // Our own properties.
    {"tcmalloc.guarded_sample", kSettings, &Figure<&HeapStats::guarded_sample>, &SetGuardedSample},
    {"tcmalloc.guarded_objects", kPages, &Figure<&HeapStats::guarded_objects>},
    {"tcmalloc.guarded_bytes", kPages, &Figure<&HeapStats::guarded_bytes>},
    {"tcmalloc.pressure_sources", kSettings, &Figure<&HeapStats::pressure_sources>},
    {"tcmalloc.pressure_sources_failed", kSettings, &Figure<&HeapStats::pressure_sources_failed>},
    {"tcmalloc.pressure_events", kSettings, &Figure<&HeapStats::pressure_events>},
    {"tcmalloc.pressure_thread_flushes", kSettings,
     [](const HeapStats& s) { return s.pressure_actions[0]; }},
    {"tcmalloc.pressure_flushes", kSettings,
     [](const HeapStats& s) { return s.pressure_actions[1]; }},
    {"tcmalloc.pressure_releases", kSettings,
     [](const HeapStats& s) { return s.pressure_actions[2]; }},
    {"tcmalloc.pressure_moved_bytes", kSettings, &Figure<&HeapStats::pressure_moved_bytes>},
};

const Property* Find(std::string_view name) {
  for (const Property& property : kProperties) {
    if (property.name == name) return &property;
  }
  return nullptr;
}

}  // namespace

std::span<const Property> Properties() { return kProperties; }

std::optional<size_t> GetProperty(Heap& heap, std::string_view name) {
  const Property* const property = Find(name);
  if (property == nullptr) return std::nullopt;
  return property->get(CollectStats(heap, property->parts));
}

bool SetProperty(Heap& heap, std::string_view name, size_t value) {
  const Property* const property = Find(name);
  return property != nullptr && property->set != nullptr && property->set(heap, value);
}

}  // namespace tcmalloc

using tcmalloc::ErrnoKeeper;
using tcmalloc::ExistingHeap;

extern "C" {

TC_EXPORT int tcmalloc_get_numeric_property(const char* name, size_t* value) noexcept {
  const ErrnoKeeper keeper;
  const auto found = tcmalloc::GetProperty(ExistingHeap(), name);
  if (!found.has_value()) return 0;
  *value = *found;
  return 1;
}

TC_EXPORT int tcmalloc_set_numeric_property(const char* name, size_t value) noexcept {
  const ErrnoKeeper keeper;
  return tcmalloc::SetProperty(ExistingHeap(), name, value) ? 1 : 0;
}

TC_EXPORT void tcmalloc_list_numeric_properties(tcmalloc_property_callback callback,
                                                void* context) {
  const tcmalloc::HeapStats stats = tcmalloc::CollectStats(ExistingHeap());
  // The names are literals, so they end with a zero.
  for (const tcmalloc::Property& property : tcmalloc::Properties()) {
    callback(property.name.data(), property.get(stats), context);
  }
}

}  // extern "C"
