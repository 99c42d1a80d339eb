// SPDX-License-Identifier: BSD-3-Clause
// Allocation and free in the debug libraries, and what they keep of each object: the pages of its
// fence, and the stacks of the calls that allocate and free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "instruments/red_zones/debug_object.h"
#include "os/spinlock.h"

namespace tcmalloc {

// The page fence (TCMALLOC_PAGE_FENCE): an object lies at the end of whole hardware pages, before a
// page that cannot be accessed; once the object is freed, none of its pages can be accessed. An
// access beyond the end or after the free faults at the instruction.
//
//   raw memory: whole hardware pages                                        |
//   | OffsetRecord, unused | DebugObject | object | rest of its alignment   | protected page |
//
// The memory belongs to the heap. Before it returns to the heap, all of it is made accessible
// again. Each fence splits a mapping in the OS; when there are too many mappings
// (vm.max_map_count), further objects have no fence. Thread safety: any. Cost: a system call for
// each change.

struct FencePlan {
  size_t room;
  size_t bytes;  // with the protected page; SIZE_MAX if they overflow
  size_t alignment;
};
FencePlan PlanFence(size_t size, size_t alignment);

// Protects the page that ends at `end`. False when the OS refuses.
bool RaiseFence(char* end);
// Protects all pages of a freed object.
void CloseFence(DebugObject* object);
// Makes the `bytes` of the object's pages, and the protected page after them, accessible.
void OpenFence(char* raw, size_t bytes);

// Copies the header of the freed object whose raw memory starts at `raw`, and sets `*start` to the
// object's address. False if the OS does not allow that.
bool CopyFencedHeader(const char* raw, DebugObject* copy, const char** start);

// The stacks of the calls that allocate and free. Each is stored once, so a program with millions
// of objects has some thousands of stacks.
//
// The memory comes from the metadata arena and is never freed. Thread safety: any; a thread adds a
// record to its bucket by a compare-and-swap, so two threads may store the same stack twice, which
// costs memory only. No lock is held across a fork. Cost: a stack trace, and the walk over a
// bucket.

// The stack of the calling thread, without the allocator's frames. Null if there is no memory.
// `caller` is the return address of the entry point. If the stack is unknown, as in the minimal
// library, nothing else is recorded.
TC_OUT_OF_LINE const CallStack* RecordCaller(uintptr_t caller);

// The record of this stack; null without memory.
const CallStack* RecordStack(const uintptr_t* frames, size_t depth);

// True if `stack` is a record of the table. A pointer from a damaged header may have any value.
// Cost: a walk over all records.
bool IsRecorded(const CallStack* stack);

// Writes the stack of the caller, without the allocator's frames, after a line of heading; nothing
// if it is unknown. `names`: see WriteStackToStderr.
TC_OUT_OF_LINE void WriteCurrentStack(const char* heading, bool names);

// Allocation and free in the debug libraries: the ordinary allocation of a larger size, with a
// header and red zones (instruments/red_zones/debug_object.h). The entry points
// (instruments/debug/entry_c.cc, instruments/debug/entry_cpp.cc) call these functions with the name
// of the call, for reports. A misuse ends the process (instruments/debug/checks.h). No lock may be
// held. Thread safety: any.
//
// Cost: two stack traces, some 100 bytes, and a pass over the object for each pattern.

// The objects that the program freed last, in the order of their frees. Their memory is
// not used again while they are in the queue, so that a write to a freed object damages only its
// pattern, and a second free finds the header.
//
// Lock: LockRank::kFreeQueue, for a list operation; around fork it is held with the heap's locks.
// Memory: at most the limit, and an entry for each object. Thread safety: any.
class FreeQueue {
 public:
  // An entry is not in the header, since the program may overwrite the header, and the header may
  // be protected.
  struct Entry {
    DebugObject* object;
    char* raw;
    size_t bytes;  // of raw memory, without a protected page
    bool fenced;
    Entry* next;
  };

  // Adds the entry, and makes its object kFreed unless the object is fenced. Returns the oldest
  // entries that must leave so that the rest has at most `limit` bytes; null for none. Their
  // objects are kFreeing, if they are not fenced: the caller checks them and returns their memory.
  Entry* Push(Entry* entry, size_t limit) TC_EXCLUDES(lock_);

  // Calls f() with the lock held if the object, which is not fenced, is in the queue, so that it
  // stays there.
  template <typename F>
  void IfInside(const DebugObject& object, F f) TC_EXCLUDES(lock_) {
    const SpinLockHolder holder(lock_);
    if (object.Is(DebugObject::kFreed)) f();
  }

  // A racy read, for statistics.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

  SpinLock& lock() { return lock_; }

 private:
  SpinLock lock_{LockRank::kFreeQueue};
  // Guarded by lock_.
  Entry* oldest_ = nullptr;
  Entry* newest_ = nullptr;
  // Written with the lock held.
  std::atomic<size_t> bytes_{0};
};

extern constinit FreeQueue free_queue;

// Registers the fork handlers of the queue's lock. Called when the library is loaded.
void PrepareFreeQueue();

// The return address of the function that it is inlined into: an entry point.
TC_FAST_PATH uintptr_t Caller() { return reinterpret_cast<uintptr_t>(__builtin_return_address(0)); }

// Allocates the memory of an object: at least `size` bytes at a multiple of `alignment`, or aligned
// as by malloc if that is 0. The entry point decides what the function does without memory (errno,
// std::bad_alloc, the new_handler).
using RawAllocation = void* (*)(size_t size, size_t alignment);

struct NewObject {
  size_t size;
  size_t alignment = 0;  // 0: none was requested
  AllocatedBy by = AllocatedBy::kMalloc;
  bool zeroed = false;
  uintptr_t caller;  // the return address of the entry point
};

// Null if `raw` returns null because there is no memory.
void* AllocateObject(const NewObject& request, RawAllocation raw);

// The facts that the entry point knows about the object that it frees.
struct FreedObject {
  const char* call;  // its name
  AllocatedBy by;
  uintptr_t caller;
  bool has_size = false;
  bool has_alignment = false;
  size_t size = 0;
  size_t alignment = 0;
};

// Accepts null, and objects of the C library's allocator.
void FreeObject(void* p, const FreedObject& freed);

// realloc for p != null and size > 0: always moves the object.
void* ReallocateObject(void* p, size_t size, uintptr_t caller, RawAllocation raw);

// Returns the size that the program requested; 0 for null and for an address where no object
// begins. Aborts for a freed object.
size_t SizeOfObject(const void* p);

// The bytes of memory that AllocateObject asks for.
size_t RawBytes(size_t size, size_t alignment);

}  // namespace tcmalloc
