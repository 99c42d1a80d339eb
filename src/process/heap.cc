// SPDX-License-Identifier: BSD-3-Clause
#include "process/heap.h"

#include <atomic>
#include <new>

#include "base/config.h"
#include "config/settings.h"
#include "os/memory/virtual_memory.h"
#include "os/process.h"
#include "os/processor.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "os/threads.h"
#include "process/background_thread.h"
#include "process/current_thread.h"

namespace tcmalloc {
namespace {

constinit SpinLock init_lock{LockRank::kInit};

bool IssueMembarrier() {
  Heap& heap = GlobalHeap();
  return heap.settings.membarrier && heap.membarrier.Issue();
}

void ConfigureMemory(const Settings& settings, Heap* heap) {
  // A sandbox that exists from the start of the process, like systemd's @system-service, may end
  // the process for a call of mincore(2), which few programs use.
  heap->virtual_memory.Configure({.use_mmap = !settings.skip_mmap,
                                  .use_sbrk = !settings.skip_sbrk,
                                  .ask_backed = !HasSystemCallFilter()});
  heap->memory.Configure({.memfs = {.path = settings.memfs_path,
                                    .limit_bytes = settings.memfs_limit_bytes,
                                    .ignore_failures = settings.memfs_ignore_mmap_fail,
                                    .map_private = settings.memfs_map_private},
                          .memfs_aborts = settings.memfs_abort_on_fail,
                          .memfs_only = settings.memfs_disable_fallback,
                          .device = {.path = settings.devmem_device,
                                     .first = settings.devmem_start_bytes,
                                     .limit = settings.devmem_limit_bytes}});
}

void ConfigurePages(const Settings& settings, Heap* heap) {
  heap->page_heap.hints().retention.SetTotal(settings.retention_bytes);
  static_assert(kDefaultReleaseRate == 1.0, "as the row of TCMALLOC_RELEASE_RATE says");
  heap->page_heap.governor()->SetReleaseRate(settings.release_rate);
  if (settings.disable_memory_release) {
    heap->page_heap.governor()->SetReleasing(Releasing::kNever);
  } else if (settings.aggressive_decommit) {
    heap->page_heap.governor()->SetReleasing(Releasing::kEager);
  }
  if (settings.hugepages) {
    // The file is read now, since a sandbox that is set up later may end the process for opening a
    // file.
    heap->page_heap.governor()->SetHugepages(ReadHugepageSetting(kHugepageDirectory));
  }
  heap->page_heap.governor()->SetLimit(LimitKind::kHard, settings.hard_limit_bytes);
  if (settings.soft_limit.percent != 0) {
    heap->container_share.percent.store(settings.soft_limit.percent, std::memory_order_relaxed);
  } else {
    heap->page_heap.governor()->SetLimit(LimitKind::kSoft, settings.soft_limit.bytes);
  }
}

// Passes the settings to the parts of a new heap, except those that are read from Heap::settings at
// each use. Called before any other thread has the heap.
void ApplySettings(const Settings& settings, Heap* heap) {
  ConfigureMemory(settings, heap);
  ConfigurePages(settings, heap);
  heap->large_reports.SetThreshold(settings.large_report_threshold_bytes);
  heap->large_reports.SetWritesLines(settings.large_report_lines);
  if (settings.max_total_thread_cache_bytes >= 0) {
    heap->registry.SetTotalLimit(static_cast<size_t>(settings.max_total_thread_cache_bytes));
  }
  static_assert(kMinPerCacheBytes >= kInitialCacheBytes);
  heap->registry.SetMinPerCache(settings.min_thread_cache_bytes);
  heap->registry.SetInheritance(true);
  heap->registry.FollowRetention();
  // This call is made now, while the process probably has one thread: later it takes milliseconds.
  if (settings.membarrier) heap->membarrier.Register();
  SetStackTraceMethod(settings.stack_trace_method);
}

}  // namespace

constinit std::atomic<bool> heap_exists{false};

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
  page_heap.store()->CheckInvariants();
  central.CheckInvariants();
  size_t small_span_bytes = 0;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const CentralFreeList& list = central.free_list(static_cast<SizeClass>(i));
    small_span_bytes += list.num_spans() * list.span_bytes();
  }
  TC_CHECK(small_span_bytes == page_heap.GetStats().small_span_bytes);  // H1
  registry.CheckInvariants();
}

void EnsureHeapSlow() {
  const SpinLockHolder holder(init_lock);
  if (heap_exists.load(std::memory_order_relaxed)) return;
  Heap* const heap = new (global_heap_storage) Heap(global_page_map);
  const bool raised_privileges = RunsWithRaisedPrivileges();
  if (!raised_privileges) ReadSettings(&heap->settings);
  heap->control.SetAccess(raised_privileges        ? Control::kPrivileged
                          : heap->settings.control ? Control::kAccepted
                                                   : Control::kForbidden);
  ApplySettings(heap->settings, heap);
  heap->page_heap.hints().unattended.Set(true);  // until a thread runs idle release
  heap->page_heap.hints().free_observer.store(&OnPagesFreed, std::memory_order_release);
  InitThreadExit();
  if (kOnHeapBuilt != nullptr) kOnHeapBuilt(*heap);
  heap_exists.store(true, std::memory_order_release);
}

}  // namespace tcmalloc
