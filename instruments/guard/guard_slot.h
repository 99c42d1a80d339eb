// SPDX-License-Identifier: BSD-3-Clause
// GuardSlot: the record of one slot of guarded objects, which is also the evidence after a crash.
// The introspection root's field table names its fields, so that a reader of the process or of its
// core dump can find the object that an address belonged to, and the call sites that allocated and
// freed it.
//
// States
//   kUnused no object was here yet kPreparing a thread makes its pages accessible and fills in the
//   record kInUse an object of the program kFreeing a thread makes the object's pages inaccessible
//   kFreed in quarantine: the record is that of the last object
//
// Synchronization. The pool's lock guards state, next and owner. The thread that brought the slot
// into kPreparing or kFreeing writes the other fields. They do not change in kFreed, nor in kInUse,
// except for `sample`, which the freeing thread takes. A reader without the lock, in the fault
// handler or outside of the process, loads the state (acquire) and may see an older record if the
// slot is being used again at that moment.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/allocation_kind.h"
#include "base/tuning.h"
#include "instruments/guard/guard_layout.h"
#include "page_heap/span.h"

namespace tcmalloc {

enum class GuardState : uint8_t { kUnused, kPreparing, kInUse, kFreeing, kFreed };

// The thread, the time, and the stack of an allocation or a free.
struct GuardTrace {
  int64_t when_ms = 0;  // by CoarseMilliseconds
  uint32_t thread = 0;  // the OS's number
  uint32_t depth = 0;
  // Return addresses, innermost first.
  std::array<uintptr_t, kTuning.guarded_samples.frames> frames = {};
};

struct GuardSlot {
  static constexpr uint32_t kNone = UINT32_MAX;

  std::atomic<GuardState> state{GuardState::kUnused};
  AllocationKind kind = AllocationKind::kUnknown;
  // In kPreparing and kFreeing: the ThisThreadNumber() of the thread that changes the slot.
  uint32_t owner = 0;
  // The slot after this one in the queue of free slots.
  uint32_t next = kNone;
  size_t requested_bytes = 0;
  size_t alignment = 1;
  GuardPlace place;
  // For the leak checker, which knows objects with their own pages by such a record. Only `sample`
  // and in_use.handed_out_ms are meaningful. It is not in the page map.
  Span span;
  GuardTrace allocated;
  // The trace of the last free; `depth` and `thread` are 0 while the object is in use.
  GuardTrace freed;

  uintptr_t end() const { return place.object + requested_bytes; }
  // An empty object has an address, and counts as one byte.
  size_t object_bytes() const { return std::max(requested_bytes, size_t{1}); }
};

}  // namespace tcmalloc
