// SPDX-License-Identifier: BSD-3-Clause
#include "heap/apply_settings.h"

#include <atomic>

#include "os/memory/hugepages.h"
#include "os/stack_trace.h"

namespace tcmalloc {
namespace {

void ConfigureMemory(const Settings& settings, Heap* heap) {
  heap->virtual_memory.Configure(
      {.use_mmap = !settings.skip_mmap, .use_sbrk = !settings.skip_sbrk});
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
  heap->page_heap.governor()->SetReleaseRate(settings.release_rate);
  if (settings.disable_memory_release) {
    heap->page_heap.governor()->SetReleasing(Releasing::kNever);
  } else if (settings.aggressive_decommit) {
    heap->page_heap.governor()->SetReleasing(Releasing::kEager);
  }
  if (settings.hugepages) {
    // Now: a sandbox that is set up later may end the process for opening a file.
    const HugepageSetting setting = ReadHugepageSetting(kHugepageDirectory);
    heap->page_heap.governor()->SetHugepagesAfterFirstGrowth(setting);
  }
  heap->page_heap.governor()->SetLimit(LimitKind::kHard, settings.hard_limit_bytes);
  if (settings.soft_limit.percent != 0) {
    heap->container_share.percent.store(settings.soft_limit.percent, std::memory_order_relaxed);
  } else {
    heap->page_heap.governor()->SetLimit(LimitKind::kSoft, settings.soft_limit.bytes);
  }
}

}  // namespace

void ApplySettings(const Settings& settings, Heap* heap) {
  ConfigureMemory(settings, heap);
  ConfigurePages(settings, heap);
  heap->large_reports.SetThreshold(settings.large_report_threshold_bytes);
  heap->large_reports.SetWritesLines(settings.large_report_lines);
  if (settings.max_total_thread_cache_bytes >= 0) {
    heap->registry.SetTotalLimit(static_cast<size_t>(settings.max_total_thread_cache_bytes));
  }
  heap->registry.SetMinPerCache(settings.min_thread_cache_bytes);
  heap->registry.SetInheritance(true);
  heap->registry.FollowRetention();
  // Now, while the process probably has one thread: later the call takes milliseconds.
  if (settings.membarrier) heap->membarrier.Register();
  SetStackTraceMethod(settings.stack_trace_method);
}

}  // namespace tcmalloc
