// SPDX-License-Identifier: BSD-3-Clause
#include "heap/heap.h"

#include <new>

#include "base/check.h"
#include "heap/apply_settings.h"
#include "heap/background_thread.h"
#include "heap/current_thread.h"
#include "os/environment.h"
#include "os/processor.h"
#include "os/spinlock.h"
#include "os/thread_exit.h"

namespace tcmalloc {
namespace {

// Written once, when the heap is complete (release); read before it is used (acquire).
constinit std::atomic<bool> heap_exists{false};
constinit SpinLock init_lock{LockRank::kInit};

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
  ApplySettings(heap->settings, heap);
  heap->page_heap.hints().prompt_release.Set(true);  // until a thread runs idle release
  heap->page_heap.hints().free_observer.store(&OnPagesFreed, std::memory_order_release);
  InitThreadExit();
  if (kOnHeapBuilt != nullptr) kOnHeapBuilt(*heap);
  heap_exists.store(true, std::memory_order_release);
}

}  // namespace tcmalloc
