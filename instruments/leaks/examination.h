// SPDX-License-Identifier: BSD-3-Clause
// Examination is the part of a check that runs while all locks of the heap are held and the other
// threads are stopped (WithHeapAtRest). It lists the objects in use, gathers the roots, marks the
// reachable objects, and collects the leaked ones in a report.
//
// It takes no lock, and allocates only from its own mappings, which are not searched. It runs on a
// task that survives faults of its guarded reader. Thread safety: none; used once. Cost: see
// instruments/world_stop/world_stop.h, and some hundred milliseconds per GiB of objects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruments/leaks/check.h"
#include "instruments/leaks/found_leaks.h"
#include "instruments/leaks/heap_objects.h"
#include "instruments/leaks/process_search.h"
#include "instruments/world_stop/memory_reader.h"
#include "instruments/world_stop/world_stop.h"
#include "process/heap.h"

namespace tcmalloc {

// Runs function(context, world) while the heap is at rest. If the OS does not allow that threads
// are stopped, they continue, but allocate and free from their own caches only. If a thread does
// not stop in time, the attempt is repeated for some seconds; between attempts the heap is released
// and all threads run. One call at a time, by a thread that holds no lock. `*stopped` is true if
// the other threads were stopped. If the result is kNotInTime, the function did not run. With kDone
// and !*stopped, the result's error says why the threads could not be stopped.
StopResult WithHeapAtRest(Heap& heap, void (*function)(void* context, const WorldStop& world),
                          void* context, bool* stopped);

// Waits `ms` milliseconds. It is not a cancellation point.
void WaitMilliseconds(int ms);

class Examination {
 public:
  // The caller's stack belongs to the program from `stack` on. With `careful` the program's memory
  // is always read with the guarded reader; otherwise only if other threads run. All references
  // outlive this.
  Examination(Heap& heap, const LeakRequest& request, uintptr_t stack, bool careful,
              FoundLeaks* report)
      : heap_(heap),
        request_(request),
        stack_(stack),
        careful_(careful),
        report_(report),
        memory_(heap.virtual_memory),
        index_(memory_),
        roots_(heap) {}
  Examination(const Examination&) = delete;
  Examination& operator=(const Examination&) = delete;

  void Run(const WorldStop& world);
  // The outcome is kImpossible also if Run was not called, or if the guarded reader does not
  // work.
  LeakOutcome outcome() const { return outcome_; }
  // True if a thread was moving objects, or changed mappings: another attempt may succeed.
  bool unsettled() const { return unsettled_; }

 private:
  const MemoryReader* reader() const { return careful_ ? &reader_ : nullptr; }

  // The functions that return a bool return false when the examination cannot continue, because of
  // a lack of memory if outcome_ and unsettled_ do not say otherwise.
  bool MarkAndCollect(const WorldStop& world);
  // Replaces the caller's thread in `world` by one without registers, whose stack is the program's
  // part only. The checker's own frames and registers hold the bounds of memory that the check
  // uses, which look like pointers to adjacent objects.
  bool ExcludeOwnFrames(WorldStop* world);
  bool AddRoots(WorldStop world);
  bool AddThreads(const WorldStop& world);
  // Adds the object that contains the address.
  bool AddObjectAt(uintptr_t address);
  bool Mark();
  // Marks the objects that threads allocated while they were disabled, and all objects reachable
  // from them.
  bool MarkFromIgnored();
  // Whether the roots are still those that were gathered: threads that run may unmap memory, and
  // the memory of the search may be mapped in its place.
  bool RootsStillValid(const WorldStop& world);

  Heap& heap_;
  const LeakRequest& request_;
  const uintptr_t stack_;
  bool careful_;
  const MemoryReader reader_{/*guarded=*/true};
  FoundLeaks* const report_;
  CheckMemory memory_;
  ObjectIndex index_;
  // Not null while Run runs.
  Marker* marker_ = nullptr;
  Roots roots_;
  LeakOutcome outcome_ = LeakOutcome::kImpossible;
  bool unsettled_ = false;
};

}  // namespace tcmalloc
