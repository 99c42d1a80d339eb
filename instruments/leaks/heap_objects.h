// SPDX-License-Identifier: BSD-3-Clause
// The index of formats/marker/object_index.h for the objects of this process's heap, and the memory
// of a check.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "base/size_classes.h"
#include "formats/marker/object_index.h"
#include "formats/marker/searched_memory.h"
#include "instruments/world_stop/memory_reader.h"
#include "os/memory/virtual_memory.h"
#include "page_heap/page_map.h"
#include "page_heap/span.h"

namespace tcmalloc {

// CheckMemory: the memory of a check, in separate mappings. It takes no memory from the checked
// heap, and it lists all its mappings, so that pointers in them do not count.
//
// Thread safety: none. It works while the other threads are stopped: it makes system calls and
// takes no lock. Large pieces are not resident before they are written. Cost: a system call per
// kChunkBytes, or per piece that is larger than an eighth of that.
class CheckMemory : public ScratchMemory {
 public:
  static constexpr size_t kChunkBytes = size_t{256} << 10;

  // `vm` outlives this and does not take memory from the heap.
  explicit CheckMemory(VirtualMemory& vm) : ScratchMemory(&AllocateFrom), vm_(vm) {}
  CheckMemory(const CheckMemory&) = delete;
  CheckMemory& operator=(const CheckMemory&) = delete;
  ~CheckMemory() { FreeAll(); }

  // Zero-filled, aligned to cache lines, valid until FreeAll. Null when the system has no memory.
  void* Allocate(size_t bytes);

  void FreeAll();

  // Calls f(start, end) for every mapping, addresses as uintptr_t.
  template <typename F>
  void ForEachRange(F f) const {
    for (const Header* header = mappings_; header != nullptr; header = header->next) {
      const uintptr_t start = reinterpret_cast<uintptr_t>(header);
      f(start, start + header->bytes);
    }
  }
  bool Contains(uintptr_t address) const;
  size_t hardware_page_size() const { return vm_.hardware_page_size(); }
  // The bytes of address space in use.
  size_t mapped_bytes() const { return mapped_bytes_; }

 private:
  // The header at the beginning of each mapping.
  struct Header {
    Header* next;
    size_t bytes;
  };

  static void* AllocateFrom(ScratchMemory& memory, size_t bytes) {
    return static_cast<CheckMemory&>(memory).Allocate(bytes);
  }
  // Maps room for `bytes` and returns the address after the header; null when there is no memory.
  char* Map(size_t bytes);

  VirtualMemory& vm_;
  Header* mappings_ = nullptr;
  char* chunk_ = nullptr;
  size_t chunk_left_ = 0;
  size_t mapped_bytes_ = 0;
};

// ObjectIndex: every object of this process's heap in use at one moment, found by any address
// inside it. formats/marker/object_index.h has the index itself; this file fills it.
//
// Source. Nothing is recorded when a program allocates. A span of a central free list is divided
// into objects of one size. Objects are free if their bits are set, if they are in a cache (the
// bins of threads, of ended threads and of a parent's threads), or if they are claimed while their
// pages are released to the OS (HoleClaims). All others are in use. Every span of state kLarge is
// one object, sampled ones included. So is every slot of a guarded sample in use
// (instruments/guard/): a large object that does not begin at a page.
//
// When the index is built. The heap is held (process/fork.h), so everything that a lock protects is
// consistent. The other threads are stopped, each at any instruction. If they could not be
// stopped, they use only their own caches, and an object that moves meanwhile may be misjudged.
// Outside of locks a thread can only be in one of these states:
//
//   An access section of one object (Bins::Pop and Push, see thread_slot.h). A pop takes effect
//   with the store of the top: before it the object is free and in the bin; after it, in use and in
//   a register, which is a root. A push stores the object into the slot above the top, then the
//   top: in between, the object is in use. For a thread stopped in an access section, the slot
//   above each top is in flight, whatever its registers hold. (Outside of a section, that slot
//   holds the object that was allocated last, which is not a root.)
//
//   A section that changes several things (ThreadCache::changing): a bin's objects are being moved
//   within its array or to another one, and the top may belong to either array. All objects in the
//   slots of the cache are in flight. memmove may hold objects only in vector registers, so
//   `settled` is false: the caller lets the threads run for a moment and tries again.
//
//   Objects between two structures. Those in an array on the stack (ThreadCache::Refill and
//   ReturnOldest, CentralCache::Insert) are found like any pointer on a stack. Three kinds are not
//   on the stack one by one: objects that were claimed in a span's bitmap and not yet turned into
//   addresses (CentralFreeList::Remove does that without the lock); arrays that were detached from
//   a cache (flush, the end of a thread); and a cache that passes from an ended thread to a new
//   one. For the first two, the function's frame has a mark (base/in_flight.h), by which the Marker
//   finds them; the third kind is in a list of the registry.
//
//   A large object whose pages are being moved (page_heap/address_space_cold.cc). Its contents may
//   be at addresses that have no span yet. Then `settled` is false, too.
//
//   A large object that was just allocated, to which only its span's record points (its allocation
//   is being sampled, or its pages are being pre-faulted): for the Marker, the address of a large
//   object's record on a stack is a pointer to the object.
//
// "In flight" means that it is unknown whether the object is in use or free. An object in flight
// counts as in use and as reachable, so that neither it nor what it points to is reported as
// leaked. An object that is free by the bitmap counts as free. At most a batch or the contents of
// one cache per thread are in flight, in one check.
//
// Freed spans. A span whose objects are all free has no home (Span::home) from the moment, under
// the lock, in which its last object was returned; a new one has none until its first objects are
// claimed. So a span on its way from or to the page heap has no objects in this index.
//
// Thread safety: built once, then constant. Cost: a step per span and per cached object to build
// (75 to 90 ms per GiB of 64-byte objects, on a Xeon at 2.8 GHz).

struct GuardSlot;
struct Heap;

// This library's pages and size classes.
struct HeapGeometry {
  static constexpr size_t kRootEntries = PageMap::kRootEntries;
  static constexpr size_t kLeafBits = PageMap::kLeafBits;

  static constexpr size_t page_shift() { return kPageShift; }
  static constexpr size_t size(size_t c) { return kSizeClasses.size(static_cast<SizeClass>(c)); }
  static constexpr size_t ObjectAt(size_t c, size_t offset) {
    return kSizeClasses.ObjectIndex(static_cast<SizeClass>(c), offset);
  }
};
static_assert(kNumSizeClasses <= 255, "entries of the index have 8 bits for the class");

class ObjectIndex : public ObjectIndexOf<HeapGeometry> {
 public:
  explicit ObjectIndex(ScratchMemory& memory) : ObjectIndexOf(memory) {}

  // Builds the index, once. False when the OS has no memory. Requires: the calling thread holds the
  // heap, and the other threads are stopped or do not use it.
  [[nodiscard]] bool Build(Heap& heap);

  // True if no thread was stopped while it moved several objects in its bins, or the pages of an
  // object.
  bool settled() const { return settled_; }

  // Returns the object's Sample (see instruments/profiles/sampler.h); null for most objects.
  const void* SampleOf(const LiveObject& object) const {
    const SpanRecord& record = RecordWithNumber(object.number);
    return record.size_class == 0 ? SpanOf(record)->sample : nullptr;
  }
  // Returns the time at which the object's span was handed out (Span::in_use). Requires: the heap
  // has been held since Build.
  int64_t HandedOutMs(const LiveObject& object) const {
    return SpanOf(RecordWithNumber(object.number))->in_use.handed_out_ms;
  }
  // Calls f(object, sample) for every sampled object, in the order of their numbers. Requires: as
  // HandedOutMs.
  template <typename F>
  void ForEachSampled(F f) const {
    for (const SpanRecord& record : records()) {
      if (record.size_class != 0 || SpanOf(record)->sample == nullptr) continue;
      f(ObjectIn(record, record.first_number), static_cast<const void*>(SpanOf(record)->sample));
    }
  }

 private:
  static constexpr size_t kSpansAtOnce = 64;

  static const Span* SpanOf(const SpanRecord& record) {
    return reinterpret_cast<const Span*>(record.record);
  }
  // Calls f(span, is_large) for every span that has objects, in the order of their addresses, until
  // f returns false; then returns false.
  template <typename F>
  static bool ForEachSpan(Heap& heap, F f);
  static SpanToMark Described(const Span* span, bool is_large);
  static SpanToMark Described(const GuardSlot& slot);
  [[nodiscard]] bool AddGuarded(Heap& heap);
  void RemoveClaimed(Heap& heap);
  [[nodiscard]] bool RemoveCached(Heap& heap);

  bool settled_ = true;
};

// The program's view of an object of the heap. The debug libraries (kHasRedZones) put a header
// before the program's object, and keep freed objects in use for a while: the caller must omit
// these. In the other libraries the heap's object is the program's object.
struct ProgramObject {
  uintptr_t start = 0;
  size_t bytes = 0;
  // The stack of the allocation, if the library keeps it.
  const uintptr_t* frames = nullptr;
  size_t depth = 0;
  enum class State : uint8_t {
    kInUse,
    kNotYet,  // being allocated: the program has no pointer to it
    kFreed,
  } state = State::kInUse;
};

// Reads the object's memory through `reader`, or directly if that is null.
ProgramObject ProgramObjectOf(const LiveObject& object, const MemoryReader* reader);

}  // namespace tcmalloc
