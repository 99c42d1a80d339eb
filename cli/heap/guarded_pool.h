// SPDX-License-Identifier: BSD-3-Clause
// GuardedPool: the pool of guarded objects of a target, with the call sites that allocated and
// freed each object, and the last misuse that the library itself found. It classifies a faulting
// access.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "heap/record.h"

namespace cli {

// The thread, the time, and the stack of an allocation or a free.
struct GuardTrace {
  int64_t when_ms = 0;  // by the heap's clock
  pid_t thread = 0;
  std::vector<Address> frames;  // return addresses, innermost first
};

struct GuardedSlot {
  enum class State {
    kNone,  // no object was here, or the record is being filled in
    kInUse,
    kFreeing,  // a thread is making its pages inaccessible
    kFreed,    // in quarantine
  };
  State state = State::kNone;
  Address record = 0;
  Address span = 0;  // the Span that represents it, for the leak checker
  Address start = 0;
  uint64_t bytes = 0;  // requested; may be 0
  // The accessible pages, while the object is in use.
  Address pages = 0;
  uint64_t page_bytes = 0;
  Address sample = 0;  // 0 if it is not sampled any more
  // "malloc", "operator new", "operator new[]"; empty if unknown.
  std::string_view allocator;
  int64_t allocated_ms = 0;

  bool HasObject() const { return state != State::kNone; }
  bool in_use() const { return state == State::kInUse; }
  bool was_freed() const { return state == State::kFreed; }
  Address end() const { return start + bytes; }
  // An empty object has an address, too.
  uint64_t object_bytes() const { return bytes == 0 ? 1 : bytes; }
};

// A mistake of the program with a guarded object.
struct GuardMistake {
  enum class Kind {
    kUseAfterFree,
    kOverflow,
    kUnderflow,
    kDoubleFree,
    kInvalidFree,
    kMismatchedFree,
    kWrongSize,
    kWrittenAfter,   // found by the free
    kWrittenBefore,  // found by the free, too
    kNoObject,       // an access to the pool, where no object was
  };
  enum class Access { kAccess, kRead, kWrite, kFree, kReallocate };

  Kind kind = Kind::kNoObject;
  Access access = Access::kAccess;
  Address address = 0;  // accessed, freed or written
  // kFree: the function, for example "operator delete".
  std::string_view freed_by;
  // kWrongSize: the arguments of the call.
  uint64_t size = 0;
  uint64_t alignment = 1;
  // The object, and the traces of its allocation and free; nullopt if the address belongs to no
  // object.
  std::optional<GuardedSlot> object;
  GuardTrace allocated;
  GuardTrace freed;  // thread 0: it was not freed
  // The library's trace of the call; thread 0 if an access faulted: then no call was traced.
  GuardTrace done;

  bool is_call() const { return access == Access::kFree || access == Access::kReallocate; }
  bool is_found_late() const { return kind == Kind::kWrittenAfter || kind == Kind::kWrittenBefore; }
};

class GuardedPool {
 public:
  // Reads the state of each slot. Throws BadImage. A target without a pool, or with an older or a
  // minimal library, has no slots.
  explicit GuardedPool(const Target& target);

  // True if the address is in a guarded object, a free slot, or the pages between them.
  bool Contains(Address address) const { return address - start_ < bytes_; }
  // The memory of the pool; 0 bytes if the process has no pool.
  Address start() const { return start_; }
  uint64_t bytes() const { return bytes_; }
  // The slots' records, which are adjacent.
  Address records() const { return records_; }
  uint64_t record_bytes() const { return record_bytes_; }
  const std::vector<GuardedSlot>& slots() const { return slots_; }
  // The slot whose pages, or the pages without access after them, contain the address; null before
  // the first one. Requires: Contains(address).
  const GuardedSlot* SlotOf(Address address) const;
  void AddGuards(std::vector<Guard>* guards) const;

  // Classifies a faulting access at this address by the rule of the library: an address in the slot
  // of a freed object belongs to that object, any other address to the nearest object. Requires:
  // Contains(fault). Throws BadImage.
  GuardMistake Classify(Address fault) const;
  // The last mistake that the library found itself, or reported; nullopt if it found no mistake.
  std::optional<GuardMistake> Kept() const;
  GuardTrace AllocationOf(const GuardedSlot& object) const;
  // The trace of the last free; thread 0 if it was not freed.
  GuardTrace FreeOf(const GuardedSlot& object) const;

 private:
  void SetObject(const GuardedSlot& object, GuardMistake* mistake) const;

  const Target& target_;
  Address pool_ = 0;
  Address start_ = 0;
  uint64_t bytes_ = 0;
  Address records_ = 0;
  uint64_t record_bytes_ = 0;
  // These describe the layout of the pool.
  uint64_t slot_bytes_ = 0;
  uint64_t fence_bytes_ = 0;
  std::vector<GuardedSlot> slots_;
};

// The guarded samples in use of a target: objects in a separate pool, each on its own pages, which
// no span of the heap contains.

struct GuardedObject {
  Address record = 0;  // of the Span that represents it
  Address start = 0;
  uint64_t bytes = 0;     // requested
  Address pages_end = 0;  // of its accessible pages
  Address sample = 0;
  int64_t handed_out_ms = 0;
};

// Returns the guarded objects; none if there is no pool. Adds the pool's lock to `guards`. Throws
// BadImage.
std::vector<GuardedObject> ReadGuardedObjects(const Target& target, std::vector<Guard>* guards);

}  // namespace cli
