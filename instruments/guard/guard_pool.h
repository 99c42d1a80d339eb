// SPDX-License-Identifier: BSD-3-Clause
// Where guarded objects lie (GuardLayout), and which slots are in use and which are free
// (GuardPool). Reports of mistakes with guarded objects, and the handler of faults. Free slots are
// used again first in, first out. A freed slot waits until all slots that were free before it were
// used, which is its quarantine.
//
// It changes only records. The caller makes pages accessible and inaccessible, without the lock:
//
//     Take -> (pages accessible, record filled in) -> Publish          an object in use
//     Claim -> (record filled in, pages taken away) -> Quarantine      freed
//
// Of two threads that free one object, one gets the claim. The other one finds the slot in
// kFreeing or kFreed.
//
// Invariants
//   G1  A slot is in the queue if and only if it is kUnused or kFreed.
//   G2  GuardedSamples::objects, object_bytes and page_bytes count the others: their number, their
//       bytes and their pages.
//
// Synchronization: LockRank::kGuarded, held for some stores. Cost: O(1), FindSlot too.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/address_range.h"
#include "base/allocation_kind.h"
#include "base/config.h"
#include "base/text.h"
#include "base/tuned.h"
#include "base/units.h"
#include "os/memory/virtual_memory.h"
#include "os/spinlock.h"
#include "os/stack_trace.h"
#include "page_heap/span.h"
#include "process/instrument_records.h"

namespace tcmalloc {

// GuardLayout: where the slots of guarded objects lie, and where an object lies in its slot. Plain
// arithmetic: it touches no memory.
//
//     | fence | pages of slot 0 | fence | pages of slot 1 | fence | ... | fence |
//
// A fence is never accessible. In a slot, only the pages of its object are accessible, while the
// object is in use. Slots and fences consist of whole pages of the allocator and of the hardware,
// so a page of the allocator belongs to at most one slot.
//
// Between an object at the end of its slot and the fence are only the bytes that its alignment
// requires, so an access after it faults. An object at the start of its slot begins at a page, so
// an access before it faults. The rest of the accessible pages, the slack, is filled with a
// pattern, which is checked when the object is freed.

// Where an object is, and the accessible pages around it.
struct GuardPlace {
  uintptr_t object = 0;
  uintptr_t pages = 0;
  size_t page_bytes = 0;

  void* first() const { return reinterpret_cast<void*>(pages); }
};

// The most guarded objects at one time, in use or in quarantine. Each has a slot of address space.
// With a record of 0.7 KiB per slot, and kMaxGuardedPageBytes, the pool takes at most 0.7 MiB. Not
// measured.
inline constexpr size_t kGuardSlots = Tuned(256, 16, 4096);
// The longest object that is guarded. Each takes whole pages, and most overflows are of short ones.
// Not measured.
inline constexpr size_t kMaxGuardedBytes = Tuned(8_KiB, kPageSize, 64_KiB);
static_assert(std::has_single_bit(kMaxGuardedBytes));

class GuardLayout {
 public:
  GuardLayout() = default;
  explicit GuardLayout(size_t hardware_page_bytes)
      : page_bytes_(hardware_page_bytes),
        slot_bytes_(std::max(kMaxGuardedBytes, hardware_page_bytes)),
        fence_bytes_(std::max(kPageSize, hardware_page_bytes)) {}

  static constexpr size_t kSlots = kGuardSlots;
  static constexpr size_t kNoSlot = SIZE_MAX;

  // Address space of the pool, which begins with a fence at a multiple of alignment().
  size_t bytes() const { return fence_bytes_ + kSlots * stride(); }
  size_t alignment() const { return fence_bytes_; }
  void SetStart(uintptr_t start) { start_ = start; }
  uintptr_t start() const { return start_; }
  size_t slot_bytes() const { return slot_bytes_; }
  uintptr_t SlotStart(size_t slot) const { return start_ + fence_bytes_ + slot * stride(); }

  // The alignment of an object of `size` bytes that was requested with `alignment`.
  static constexpr size_t Alignment(size_t size, size_t alignment) {
    // As in the size classes, objects of up to half of kMinAlignment are aligned to that half.
    const size_t least = size > kMinAlignment / 2 ? kMinAlignment : kMinAlignment / 2;
    return std::max(least, alignment);
  }
  // True if an object of `size` bytes at a multiple of `alignment`, a power of two, can be guarded.
  bool Fits(size_t size, size_t alignment) const {
    return size <= kMaxGuardedBytes && alignment <= page_bytes_;
  }
  // Requires: Fits(size, alignment).
  GuardPlace Place(size_t slot, size_t size, size_t alignment, bool at_start) const {
    const size_t aligned = Alignment(size, alignment);
    // An empty object has its own address, too.
    const size_t taken = (std::max(size, size_t{1}) + aligned - 1) & ~(aligned - 1);
    const size_t pages = (taken + page_bytes_ - 1) & ~(page_bytes_ - 1);
    const uintptr_t first = SlotStart(slot);
    if (at_start) return {first, first, pages};
    const uintptr_t end = first + slot_bytes_;
    return {end - taken, end - pages, pages};
  }

  // The slot whose pages, or the fence after them, contain `address`; kNoSlot for the first fence.
  // Requires: the address is in the pool.
  size_t SlotOf(uintptr_t address) const {
    const uintptr_t offset = address - start_;
    return offset < fence_bytes_ ? kNoSlot : (offset - fence_bytes_) / stride();
  }

 private:
  size_t stride() const { return slot_bytes_ + fence_bytes_; }

  uintptr_t start_ = 0;
  size_t page_bytes_ = 0;
  size_t slot_bytes_ = 0;
  size_t fence_bytes_ = 0;
};

// The pattern around a guarded object, in the rest of its pages. A write there does not fault, so
// the pattern is checked when the object is freed. A write of the pattern's own byte goes
// unnoticed.
inline constexpr uint8_t kSlackByte = 0xcb;

inline void FillSlack(const GuardPlace& place, size_t size) {
  const uintptr_t end = place.object + size;
  memset(reinterpret_cast<void*>(place.pages), kSlackByte, place.object - place.pages);
  memset(reinterpret_cast<void*>(end), kSlackByte, place.pages + place.page_bytes - end);
}

// True if all bytes of [start, end) have the pattern.
inline bool IsSlack(uintptr_t start, uintptr_t end) {
  return IsFilled(reinterpret_cast<const void*>(start), end - start, kSlackByte);
}

// Returns the address of the written byte that is nearest to the object, first after it, then
// before it; 0 if none was written. Requires: the pages are accessible.
inline uintptr_t FindWrittenSlack(const GuardPlace& place, size_t size) {
  const uintptr_t after = place.object + size;
  const uintptr_t end = place.pages + place.page_bytes;
  if (!IsSlack(after, end)) {
    uintptr_t at = after;
    while (IsSlack(at, at + 1)) ++at;
    return at;
  }
  if (!IsSlack(place.pages, place.object)) {
    uintptr_t at = place.object - 1;
    while (IsSlack(at, at + 1)) --at;
    return at;
  }
  return 0;
}

// The most bytes of pages with guarded objects in use; further samples are not guarded. So at least
// half of the slots are in quarantine. Not measured.
inline constexpr size_t kMaxGuardedPageBytes = Tuned(512_KiB, kMaxGuardedBytes, 16_MiB);
// The most return addresses that are kept for the allocation and for the free.
inline constexpr size_t kGuardFrames = 32;
static_assert(kGuardFrames <= kMaxStackDepth);

enum class GuardState : uint8_t { kUnused, kPreparing, kInUse, kFreeing, kFreed };

// The thread, the time, and the stack of an allocation or a free.
struct GuardTrace {
  int64_t when_ms = 0;  // by CoarseMilliseconds
  uint32_t thread = 0;  // the OS's number
  uint32_t depth = 0;
  // Return addresses, innermost first.
  std::array<uintptr_t, kGuardFrames> frames = {};
};

// GuardSlot: the record of one slot of guarded objects. The introspection root's field table names
// its fields: a reader of the process or of its core dump can find the object that an address
// belonged to, and the call sites that allocated and freed it.
//
// States
//   kUnused     no object was here yet
//   kPreparing  a thread makes its pages accessible and fills in the record
//   kInUse      an object of the program
//   kFreeing    a thread makes the object's pages inaccessible
//   kFreed      in quarantine: the record is that of the last object
//
// Synchronization. The pool's lock guards state, next and owner. The thread that brought the slot
// into kPreparing or kFreeing writes the other fields. They do not change in kFreed, nor in kInUse,
// except for `sample`, which the freeing thread takes. A reader without the lock, in the fault
// handler or outside of the process, loads the state (acquire) and may see an older record if the
// slot is being used again at that moment.
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

enum class GuardErrorKind : uint8_t {
  kNone,
  // Kinds of accesses that faulted.
  kUseAfterFree,
  kOverflow,
  kUnderflow,
  kNoObject,  // in the pool, where no object ever was nearby
  // Kinds of wrong frees.
  kDoubleFree,
  kInvalidFree,     // not the start of an object
  kMismatchedFree,  // for example, delete of an object of malloc
  kWrongSize,       // a sized free, with another size or alignment
  // A free found that the slack was written.
  kWrittenAfter,
  kWrittenBefore,
};

// The operation of the program.
enum class GuardAccess : uint8_t { kAccess, kRead, kWrite, kFree, kReallocate };

// GuardError is a misuse of a guarded object by the program, with its kind, the object, and the
// call site. It is in the pool, where a reader of a core dump finds it.
struct GuardError {
  GuardErrorKind kind = GuardErrorKind::kNone;
  GuardAccess access = GuardAccess::kAccess;
  // For kFree: the function.
  AllocationKind freed_as = AllocationKind::kUnknown;
  // The index of the object's slot; GuardSlot::kNone if there is no object.
  uint32_t slot = GuardSlot::kNone;
  // The address that was accessed, freed, or for kWrittenAfter and kWrittenBefore written.
  uintptr_t address = 0;
  // For kWrongSize: the arguments of the free.
  size_t size = 0;
  size_t alignment = 1;
  GuardTrace trace;
};

class GuardPool {
 public:
  // `slots` is memory for GuardLayout::kSlots records. It and `figures` outlive the pool.
  GuardPool(const GuardLayout& layout, void* slots, GuardedSamples& figures);

  const GuardLayout& layout() const { return layout_; }

  // Takes the slot that was free for longest, and sets its state to kPreparing, and
  // requested_bytes, alignment and place for the object. Null when too many objects are in use, or
  // the object does not fit.
  GuardSlot* Take(size_t size, size_t alignment) TC_EXCLUDES(lock_);
  // Marks the object as in use.
  void Publish(GuardSlot* slot) TC_EXCLUDES(lock_);
  // Called instead of Publish if the pages could not be made accessible. Frees the slot.
  void GiveUp(GuardSlot* slot) TC_EXCLUDES(lock_);

  // Brings the slot of the object at `p` from kInUse into kFreeing. Null when no object in use
  // starts there.
  GuardSlot* Claim(const void* p) TC_EXCLUDES(lock_);
  // Undoes Claim: the object of the slot stays in use.
  void ReturnClaim(GuardSlot* slot) TC_EXCLUDES(lock_);
  // Frees the claimed slot, at the end of the queue.
  void Quarantine(GuardSlot* slot) TC_EXCLUDES(lock_);

  // The slot whose pages, or the fence after them, contain `address`; null before the first one.
  // Requires: the address is in the pool.
  GuardSlot* FindSlot(uintptr_t address) const;
  // The slot's index.
  size_t IndexOf(const GuardSlot* slot) const { return static_cast<size_t>(slot - slots_); }

  // Calls f(slot) for every object in use. Requires: the caller holds the lock.
  template <typename F>
  void ForEachInUse(F f) const {
    for (size_t i = 0; i < GuardLayout::kSlots; ++i) {
      if (slots_[i].state.load(std::memory_order_relaxed) == GuardState::kInUse) f(slots_[i]);
    }
  }
  // Called in a forked child, which lacks the threads that were changing slots. For each such slot,
  // calls f(slot), which must make its pages inaccessible, then puts the slot into the queue. A
  // slot that the forking thread was changing stays as it is: that thread's signal handler forked,
  // and will return.
  template <typename F>
  void FreeOthersInChild(F f) {
    for (size_t i = 0; i < GuardLayout::kSlots; ++i) {
      GuardSlot& slot = slots_[i];
      if (!IsChangedByOther(slot)) continue;
      f(slot);
      Quarantine(&slot);
    }
  }

  SpinLock& lock() { return lock_; }
  // The last mistake that was found; its `kind` is kNone until then. A reader outside of the
  // process finds it in the pool, too.
  const GuardError& error() const { return error_; }
  // Stores the mistake as the last one. If several threads find mistakes at once, the mistake of
  // one of them is kept. Async-signal-safe.
  void KeepError(const GuardError& error);
  // Called in a forked child, which lacks a thread that was storing a mistake.
  void ResetErrorInChild() { keeping_error_.clear(std::memory_order_relaxed); }
  // Aborts when an invariant does not hold. Requires: no other thread uses the pool.
  void CheckInvariants() TC_EXCLUDES(lock_);

 private:
  static bool IsChangedByOther(const GuardSlot& slot);
  void AppendLocked(GuardSlot* slot) TC_REQUIRES(lock_);
  uint32_t NumberOf(const GuardSlot* slot) const { return static_cast<uint32_t>(IndexOf(slot)); }

  // Constant after construction.
  const GuardLayout layout_;
  GuardSlot* const slots_;
  GuardedSamples& figures_;

  SpinLock lock_{LockRank::kGuarded};
  // The queue of free slots; GuardSlot::kNone if it is empty.
  uint32_t first_ TC_GUARDED_BY(lock_) = 0;
  uint32_t last_ TC_GUARDED_BY(lock_) = GuardLayout::kSlots - 1;
  // How often a slot was taken. It decides whether an object is at the start or the end of its
  // slot.
  size_t taken_ TC_GUARDED_BY(lock_) = 0;

  // Written by the thread that has set `keeping_error_`. Its kind is kNone while the rest is being
  // written, so a core file of that moment has no mixture of two mistakes.
  GuardError error_;
  std::atomic_flag keeping_error_;
};

// The report of a mistake with a guarded object: what the program did, to which object, with the
// stacks of the access, of the free and of the allocation. The fault handler writes it, too, so its
// memory comes from mmap, it takes no lock, and it calls no function of the C library that may take
// one. Needs 16 KiB of stack.

// The first line: "tcmalloc: use after free: write at 0x7f12, byte 2 of ...\n".
void WriteGuardErrorLine(const GuardPool& pool, const GuardError& error, TextWriter* out);

// Writes the whole report to stderr, with the names of functions. `vm` provides the memory for
// names.
void WriteGuardReport(const GuardPool& pool, const GuardError& error, VirtualMemory& vm);

// Reports faulting accesses to guarded objects from within the process, if TCMALLOC_GUARDED_REPORT
// requests that: handles SIGSEGV and SIGBUS from now on (HandleFaults). False when the OS refuses.
bool ReportGuardFaults();

// A handler of SIGSEGV and SIGBUS that reports faults at certain addresses, and then calls the
// former handler. If there was none, the default action applies: the faulting instruction runs
// again and ends the process, with a core dump of that moment.
//
// If the handler runs on an alternate signal stack, which may be short, the report runs on a stack
// that is mapped for it. If several threads fault at once, each waits until the report before its
// own is written. A fault inside a report is not reported. A handler that the program installs
// later replaces this one.
struct Fault {
  enum class Access : uint8_t { kUnknown, kRead, kWrite };

  uintptr_t address = 0;
  Access access = Access::kUnknown;
  // The third argument of the signal handler.
  const void* context = nullptr;
};

// Installs the handler, once. `is_ours` decides whether the fault at an address is reported. Both
// functions must be async-signal-safe. False when the OS refuses.
bool HandleFaults(bool (*is_ours)(uintptr_t address), void (*report)(const Fault& fault));

}  // namespace tcmalloc
