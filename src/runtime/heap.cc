// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/heap.h"

#include <new>

#include "base/check.h"
#include "os/environment.h"
#include "os/hugepages.h"
#include "os/processor.h"
#include "os/spinlock.h"
#include "os/thread_exit.h"
#include "runtime/background_thread.h"
#include "runtime/current_thread.h"

namespace tcmalloc {
namespace {

// Written once, when the heap is complete (release); read before it is used (acquire).
constinit std::atomic<bool> heap_exists{false};
constinit SpinLock init_lock{LockRank::kInit};

void ConfigureMemory(const Settings& settings, Heap* heap) {
  heap->virtual_memory.Configure(
      {.use_mmap = !settings.skip_mmap, .use_sbrk = !settings.skip_sbrk});
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  heap->memory.Configure({.memfs = {.path = settings.memfs_path,
                                    .limit_bytes = settings.memfs_limit_mb * kMebibyte,
                                    .ignore_failures = settings.memfs_ignore_mmap_fail,
                                    .map_private = settings.memfs_map_private},
                          .memfs_aborts = settings.memfs_abort_on_fail,
                          .memfs_only = settings.memfs_disable_fallback,
                          .device = {.path = settings.devmem_device,
                                     .first = settings.devmem_start_mb * kMebibyte,
                                     .limit = settings.devmem_limit_mb * kMebibyte}});
}

bool IssueMembarrier() {
  Heap& heap = GlobalHeap();
  return heap.settings.membarrier && heap.membarrier.Issue();
}

}  // namespace

constinit PageMap global_page_map;

alignas(Heap) constinit char global_heap_storage[sizeof(Heap)] = {};

Heap::Heap(PageMap& page_map)
    : memory(virtual_memory),
      arena(virtual_memory),
      page_heap(memory, page_map, arena, {.unmap_when_short = true}),
      central(page_heap, page_map, arena, &CurrentProcessor),
      holes(memory, page_heap, page_map, arena, central),
      registry(central, arena, &IssueMembarrier) {
  arena.SetFallback(
      [](void* pages, size_t* bytes) {
        return static_cast<PageHeap*>(pages)->TakeForMetadata(bytes);
      },
      &page_heap);
}

void Heap::CheckInvariants() {
  page_heap.CheckInvariants();
  central.CheckInvariants();
  size_t small_span_bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const CentralFreeList& list = central.free_list(static_cast<SizeClass>(i));
    small_span_bytes += list.num_spans() * list.span_bytes();
  }
  TC_CHECK(small_span_bytes == page_heap.GetStats().small_span_bytes);  // H1
  registry.CheckInvariants();
}

bool HeapExists() { return heap_exists.load(std::memory_order_acquire); }

void EnsureHeapSlow() {
  const SpinLockHolder holder(init_lock);
  if (heap_exists.load(std::memory_order_relaxed)) return;
  Heap* const heap = new (global_heap_storage) Heap(global_page_map);
  ReadSettings(RunsWithRaisedPrivileges(), &heap->settings);
  ConfigureMemory(heap->settings, heap);
  heap->page_heap.SetReleaseRate(heap->settings.release_rate);
  heap->page_heap.SetPromptRelease(true);  // until there is a background thread
  heap->page_heap.SetFreeObserver(&NoteFrees);
  if (heap->settings.disable_memory_release) {
    heap->page_heap.SetReleasing(PageHeap::Releasing::kNever);
  } else if (heap->settings.aggressive_decommit) {
    heap->page_heap.SetReleasing(PageHeap::Releasing::kEager);
  }
  if (heap->settings.hugepages) {
    // Now: a sandbox that is set up later may end the process for opening a file.
    heap->page_heap.SetHugepagesAfterFirstGrowth(ReadHugepageSetting(kHugepageDirectory));
  }
  heap->page_heap.SetLimit(LimitKind::kHard, heap->settings.hard_limit_bytes);
  if (heap->settings.soft_limit_percent != 0) {
    heap->container_share.percent.store(heap->settings.soft_limit_percent,
                                        std::memory_order_relaxed);
  } else {
    heap->page_heap.SetLimit(LimitKind::kSoft, heap->settings.soft_limit_bytes);
  }
  heap->large_reports.SetThreshold(heap->settings.large_report_threshold_bytes);
  heap->large_reports.SetWritesLines(heap->settings.large_report_lines);
  heap->registry.SetTotalLimit(heap->settings.max_total_thread_cache_bytes);
  heap->registry.SetMinPerCache(heap->settings.min_thread_cache_bytes);
  heap->registry.SetInheritance(heap->settings.inheritance_bytes);
  // Now, while the process is likely to have one thread: later it costs milliseconds.
  if (heap->settings.membarrier) heap->membarrier.Register();
  SetStackTraceMethod(heap->settings.stack_trace_method);
  InitThreadExit();
  if (kOnHeapBuilt != nullptr) kOnHeapBuilt(*heap);
  heap_exists.store(true, std::memory_order_release);
}

}  // namespace tcmalloc
