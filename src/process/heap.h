// SPDX-License-Identifier: BSD-3-Clause
// Heap: the composition root. One object holds all parts of the allocator, wired together. The
// process has one, built at the first allocation. Only this folder and those above name it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "central/central_cache.h"
#include "central/hole_release.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/memory/anonymous_memory.h"
#include "os/memory/heap_memory.h"
#include "os/processor.h"
#include "page_heap/metadata_arena.h"
#include "page_heap/page_heap.h"
#include "page_heap/page_map.h"
#include "process/control.h"
#include "process/fast_path_data.h"
#include "process/instrument_records.h"
#include "process/large_reports.h"
#include "process/limits.h"
#include "process/sampling.h"
#include "thread_cache/registry.h"

namespace tcmalloc {

// A function that runs once in a forked child that keeps running: the first allocation on the slow
// path after `at_ms` calls it (process/limits.cc). Children that exec soon never call it. It runs
// inside malloc, but without the allocator's locks, so it may allocate. The single thread with
// which a child begins sets the timer, or the function itself, for another try.
struct AfterForkTimer {
  void (*run)() = nullptr;
  // CoarseMilliseconds; 0 if no call is scheduled. Stored after `run` (release); the thread that
  // changes it to 0 (acquire) makes the call.
  std::atomic<int64_t> at_ms{0};
};

struct Heap {
  explicit Heap(PageMap& page_map);

  // Aborts when an invariant of a part, or one between two parts, does not hold. No other thread
  // may allocate or free meanwhile.
  //   H1  The pages of the central free lists' spans are the page heap's pages in small spans.
  void CheckInvariants();

  Settings settings;
  Membarrier membarrier;
  AnonymousMemory virtual_memory;  // of the heap's own records
  HeapMemory memory;               // of the program's objects
  MetadataArena arena;
  PageHeap page_heap;
  ContainerShare container_share;
  LargeReports large_reports;
  Sampling sampling;
  GuardedSamples guarded;
  PressureCounts pressure_counts;
  AfterForkTimer after_fork_timer;
  Control control;
  CentralCache central;  // it ends with memory that most processes do not touch
  HoleRelease holes;
  Registry registry;
};

// The process's heap. Requires: EnsureHeap() has returned once in this thread or before it was
// started, or the caller holds an object of the heap.
alignas(Heap) extern char global_heap_storage[];
inline Heap& GlobalHeap() { return *reinterpret_cast<Heap*>(global_heap_storage); }

// True once the heap is built. Written once with release order; read with acquire order before the
// heap is used.
extern std::atomic<bool> heap_exists;
inline bool HeapExists() { return heap_exists.load(std::memory_order_acquire); }

// Called with the process's heap when it is built, before any other thread or allocation has it;
// may be null. Must not allocate. Defined in instruments/profiles/. It is a constant,
// because the first allocation may precede all constructors.
extern void (*const kOnHeapBuilt)(Heap& heap);

// Builds the heap unless it exists. Cost: an atomic load when it does.
void EnsureHeapSlow();
inline void EnsureHeap() {
  if (!HeapExists()) EnsureHeapSlow();
}

// The process's heap; builds it unless it exists.
inline Heap& ExistingHeap() {
  EnsureHeap();
  return GlobalHeap();
}

}  // namespace tcmalloc
