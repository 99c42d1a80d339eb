// SPDX-License-Identifier: BSD-3-Clause
// The functions of include/tcmalloc/tcmalloc.h, but for those of profiles
// (instruments/profiles/entry_profiles.cc) and of objects' sizes. Their contract is in that header.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/text_writer.h"
#include "base/units.h"
#include "config/settings.h"
#include "instruments/pressure/listeners.h"
#include "instruments/pressure/pressure.h"
#include "os/errno_keeper.h"
#include "page_heap/page_map.h"
#include "page_heap/release_policy.h"
#include "process/current_thread.h"
#include "process/heap.h"
#include "process/idle_release.h"
#include "process/limits.h"
#include "process/trim.h"
#include "stats/process_facts.h"
#include "stats/stats.h"
#include "stats/stats_formats.h"
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
// figures of the process outside its heap (stats/process_facts.h).
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
}  // namespace tcmalloc
