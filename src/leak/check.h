// SPDX-License-Identifier: BSD-3-Clause
// One check for leaks, from beginning to end: the heap's locks are taken, the other threads are
// stopped, the objects in use are listed, what can be reached from the roots is marked, what is
// left is counted by the site where it was allocated, and all go on.
//
// Where the system does not let threads be stopped, the check is made all the same while they run:
// they cannot allocate or free meanwhile, but may hold what then looks leaked, and may unmap what
// is searched, which is therefore read with care. A thread that does not stop in time is tried
// again for some seconds; then there is no result. The report says all of that.
//
// Nothing here calls malloc: memory comes from the heap's own source of records, which is not
// searched. Called by any thread that holds no lock; a second one waits until the first is done.
// Cost: see docs/leak-checker.md; the other threads stand still for some milliseconds and some
// hundred milliseconds per GiB of objects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "leak/check_memory.h"
#include "leak/found_leaks.h"
#include "leak/object_index.h"
#include "runtime/heap.h"

namespace tcmalloc {

struct LeakRequest {
  // False: whatever is in use counts as lost, but for what the program wants to be ignored.
  bool reachability = true;
  // What leads to objects: data of the program and its libraries; stacks, registers and
  // thread-local storage.
  bool from_globals = true;
  bool from_threads = true;
  // How far into an object a pointer may point, SIZE_MAX for anywhere; where pointers lie.
  size_t max_pointer_offset = 1024;
  size_t pointer_source_alignment = sizeof(uintptr_t);
  // Objects that are not recorded do not count, nor those of earlier periods (leak/annotations.h).
  bool recorded_only = false;
  uint32_t since_period = 0;
  // Objects that are in it do not count; null: none.
  const ObjectIndex* before = nullptr;
  // Each object is a site of its own.
  bool by_object = false;
  bool show_contents = false;
  // Of the caller's stack what lies from here on belongs to the program; 0: from the frame of
  // CheckForLeaks on. Frames of the library's own that lie between have words in them that the
  // program left there before.
  uintptr_t program_stack = 0;
};

// As the settings say, with everything counting.
LeakRequest LeakRequestBySettings(const Settings& settings);

// The report is new.
void CheckForLeaks(Heap& heap, const LeakRequest& request, FoundLeaks* report);

// What is in use at one moment: for a later check that is only about what came since. It knows
// objects by their address: one that was freed since counts as being there still, if another one
// has its place. Where allocations are recorded a period is better, and free.
class HeapMoment {
 public:
  explicit HeapMoment(Heap& heap) : memory_(heap.virtual_memory), index_(memory_) {}
  // Once. False when there is no memory, or threads could not be stopped.
  [[nodiscard]] bool Take(Heap& heap);
  const ObjectIndex& index() const { return index_; }

 private:
  CheckMemory memory_;
  ObjectIndex index_;
};

}  // namespace tcmalloc
