// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h, but for those of profiles
// (instruments/profiles/entry_profiles.cc) and of objects' sizes. Their contract is in that header.
//
// The table of properties, and the functions of include/tcmalloc/tcmalloc.h for them. All values of
// a list come from the same HeapStats.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/text.h"
#include "base/units.h"
#include "config/settings.h"
#include "instruments/guard/guarded_objects.h"
#include "instruments/pressure/pressure.h"
#include "instruments/profiles/sampler.h"
#include "malloc/properties.h"
#include "os/errno_keeper.h"
#include "page_heap/page_map.h"
#include "page_heap/release_policy.h"
#include "process/current_thread.h"
#include "process/heap.h"
#include "process/limits.h"
#include "process/release.h"
#include "stats/stats.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

static_assert(static_cast<int>(LimitKind::kHard) == TCMALLOC_LIMIT_HARD &&
              static_cast<int>(LimitKind::kSoft) == TCMALLOC_LIMIT_SOFT);

bool IsLimitKind(int kind) { return kind == TCMALLOC_LIMIT_HARD || kind == TCMALLOC_LIMIT_SOFT; }

static_assert(sizeof(tcmalloc_pressure_listener) == sizeof(PressureListener) &&
              offsetof(tcmalloc_pressure_listener, context) == offsetof(PressureListener, context));

PressureListener* NodeOf(tcmalloc_pressure_listener* listener) {
  return reinterpret_cast<PressureListener*>(listener);
}

// Like snprintf: cuts the text to the buffer, ends it with a zero, returns the length of the whole
// text. Makes no system call, for which a sandbox might kill the process. So the text has no
// figures of the process outside its heap (stats/stats.h).
template <typename Write>
size_t WriteInto(char* buffer, size_t length, Write write) {
  const ErrnoKeeper keeper;
  HeapSnapshot snapshot;
  CollectSnapshot(ExistingHeap(), &snapshot);
  char nowhere[1];
  TextWriter out(length == 0 ? nowhere : buffer, length == 0 ? sizeof(nowhere) : length);
  write(snapshot, &out);
  return out.total_length();
}

// The library's own source of memory, as a SystemAllocator.
class DefaultAllocator final : public SystemAllocator {
 public:
  void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) noexcept override {
    Heap& heap = ExistingHeap();
    const size_t page = heap.memory.hardware_page_size();
    if (bytes == 0 || bytes > SIZE_MAX - page || (alignment & (alignment - 1)) != 0) return nullptr;
    const Mapping mapping = heap.memory.MapWithoutCustom((bytes + page - 1) & ~(page - 1),
                                                         alignment == 0 ? 1 : alignment);
    if (mapping.start != nullptr && actual_bytes != nullptr) *actual_bytes = mapping.bytes;
    return mapping.start;
  }
};

// The program's allocator, as the layers below see it.
class ProgramAllocator final : public CustomMemory {
 public:
  void* Allocate(size_t bytes, size_t* actual_bytes, size_t alignment) override {
    return allocator_.load(std::memory_order_acquire)->Allocate(bytes, actual_bytes, alignment);
  }
  SystemAllocator* allocator() const { return allocator_.load(std::memory_order_acquire); }
  void Set(SystemAllocator* allocator) { allocator_.store(allocator, std::memory_order_release); }

 private:
  // Set writes it with release order, after the object is complete; threads that grow the heap read
  // it with acquire order. It is not null after the first Set.
  std::atomic<SystemAllocator*> allocator_{nullptr};
};

constinit DefaultAllocator default_allocator;
constinit ProgramAllocator program_allocator;

}  // namespace

extern "C" {

// ---- Flushing caches, releasing memory. These functions keep errno.

TC_EXPORT size_t tcmalloc_flush_thread_caches() noexcept {
  const ErrnoKeeper keeper;
  return FlushThreadCaches(ExistingHeap());
}

TC_EXPORT size_t tcmalloc_flush_central_caches() noexcept {
  const ErrnoKeeper keeper;
  return FlushCentralCaches(ExistingHeap());
}

TC_EXPORT size_t tcmalloc_flush_this_thread_cache() noexcept {
  if (current_slot.cache == nullptr) return 0;
  const ErrnoKeeper keeper;
  return GlobalHeap().registry.FlushAndYieldLimit(current_slot.cache);
}

TC_EXPORT void tcmalloc_mark_thread_idle() noexcept { tcmalloc_flush_this_thread_cache(); }

TC_EXPORT void tcmalloc_mark_thread_temporarily_idle() noexcept {
  if (current_slot.cache == nullptr) return;
  const ErrnoKeeper keeper;
  current_slot.cache->Flush();
}

TC_EXPORT void tcmalloc_mark_thread_busy() noexcept { CurrentCache(); }

TC_EXPORT size_t tcmalloc_release_free_memory() noexcept {
  return tcmalloc_release_to_system(SIZE_MAX);
}

TC_EXPORT size_t tcmalloc_release_to_system(size_t bytes) noexcept {
  const ErrnoKeeper keeper;
  const Length n = Length::ForBytes(std::min(bytes, SIZE_MAX / 2));
  return ExistingHeap().page_heap.ReleaseAtLeast(n).bytes();
}

TC_EXPORT void tcmalloc_set_memory_release_rate(double rate) noexcept {
  // The comparison is false for 0.0 / 0, which is not a number; it counts as 0.
  rate = rate > 0 ? std::min(rate, kMaxReleaseRate) : 0;
  ExistingHeap().page_heap.governor()->SetReleaseRate(rate);
}

TC_EXPORT double tcmalloc_get_memory_release_rate() noexcept {
  return ExistingHeap().page_heap.governor()->release_rate();
}

// Not noexcept: cancelling the thread unwinds through this function.
TC_EXPORT void tcmalloc_process_background_actions() { ProcessBackgroundActions(ExistingHeap()); }

// ---- Memory limits; 0 means no limit.

TC_EXPORT void tcmalloc_set_memory_limit(int kind, size_t bytes) noexcept {
  if (!IsLimitKind(kind)) return;
  const ErrnoKeeper keeper;
  SetMemoryLimit(ExistingHeap(), static_cast<LimitKind>(kind), bytes == 0 ? kNoLimit : bytes);
}

TC_EXPORT size_t tcmalloc_get_memory_limit(int kind) noexcept {
  if (!IsLimitKind(kind)) return 0;
  MemoryLimits limits = ExistingHeap().page_heap.governor()->limits();
  const size_t bytes = limits.of(static_cast<LimitKind>(kind));
  return bytes == kNoLimit ? 0 : bytes;
}

TC_EXPORT void tcmalloc_set_limit_callback(tcmalloc_limit_callback callback,
                                           void* context) noexcept {
  ExistingHeap().page_heap.governor()->limit_watch().SetCallback(callback, context);
}

// ---- Memory pressure: adapters to instruments/pressure/pressure.h. The public node and
// PressureListener have one layout.

TC_EXPORT void tcmalloc_add_pressure_listener(tcmalloc_pressure_listener* listener) noexcept {
  const ErrnoKeeper keeper;
  AddPressureListener(NodeOf(listener));
}

TC_EXPORT void tcmalloc_remove_pressure_listener(tcmalloc_pressure_listener* listener) noexcept {
  const ErrnoKeeper keeper;
  RemovePressureListener(NodeOf(listener));
}

TC_EXPORT int tcmalloc_pressure_fd(void) noexcept {
  const int fd_or_error = PressureFd(ExistingHeap());
  if (fd_or_error >= 0) return fd_or_error;
  errno = -fd_or_error;
  return -1;
}

TC_EXPORT int tcmalloc_handle_pressure(void) noexcept {
  const ErrnoKeeper keeper;
  return HandlePressure(ExistingHeap());
}

// ---- The version, statistics, and reports of large allocations; 0 means no threshold.

// A view of a string literal, which ends with a zero.
TC_EXPORT const char* tcmalloc_version() noexcept { return kLibraryVersion.data(); }

TC_EXPORT size_t tcmalloc_stats_text(int level, char* buffer, size_t length) noexcept {
  return WriteInto(buffer, length, [level](const HeapSnapshot& snapshot, TextWriter* out) {
    WriteStatsText(snapshot, level, out);
  });
}

TC_EXPORT size_t tcmalloc_stats_json(char* buffer, size_t length) noexcept {
  return WriteInto(buffer, length, [](const HeapSnapshot& snapshot, TextWriter* out) {
    WriteStatsJson(snapshot, nullptr, out);
  });
}

TC_EXPORT size_t tcmalloc_stats_openmetrics(char* buffer, size_t length) noexcept {
  return WriteInto(buffer, length, &WriteStatsOpenMetrics);
}

TC_EXPORT void tcmalloc_set_large_allocation_callback(tcmalloc_large_allocation_callback callback,
                                                      void* context) noexcept {
  ExistingHeap().large_reports.SetCallback(callback, context);
}

TC_EXPORT void tcmalloc_set_large_allocation_threshold(size_t bytes) noexcept {
  ExistingHeap().large_reports.SetThreshold(bytes == 0 ? LargeReports::kNever : bytes);
}

TC_EXPORT size_t tcmalloc_get_large_allocation_threshold() noexcept {
  const size_t bytes = ExistingHeap().large_reports.threshold();
  return bytes == LargeReports::kNever ? 0 : bytes;
}

// ---- The source of the heap's memory: adapters between the public SystemAllocator and
// CustomMemory, the interface of the layers below.

TC_EXPORT SystemAllocator* tcmalloc_system_allocator() noexcept {
  const bool custom = ExistingHeap().memory.custom() != nullptr;
  return custom ? program_allocator.allocator() : &default_allocator;
}

TC_EXPORT void tcmalloc_set_system_allocator(SystemAllocator* allocator) noexcept {
  HeapMemory& memory = ExistingHeap().memory;
  if (allocator == nullptr || allocator == &default_allocator) {
    memory.SetCustom(nullptr);
    return;
  }
  program_allocator.Set(allocator);
  memory.SetCustom(&program_allocator);
}

// ---- Whether an address is in the heap.

TC_EXPORT int tcmalloc_owns(const void* address) noexcept {
  if (address == nullptr || !PageMap::InRange(address)) return 0;
  Heap& heap = ExistingHeap();
  return heap.guarded.Contains(address) || heap.page_heap.store()->Owns(PageId::Containing(address))
             ? 1
             : 0;
}

}  // extern "C"
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
    callback(property.name, property.get(stats), context);
  }
}

}  // extern "C"
