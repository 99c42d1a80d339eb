// SPDX-License-Identifier: BSD-3-Clause
// What the debug libraries keep with each object of the program: a header, red zones, and the
// stacks of its allocation and its free.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"

namespace tcmalloc {

// CallStack: the stack of a call that allocated or freed, as the debug libraries keep it. Equal
// stacks share one record, which is never freed or changed.
struct CallStack {
  CallStack* next;  // in a bucket of the table
  uint32_t hash;
  uint32_t depth;
  // `depth` return addresses, the innermost first.
  uintptr_t frames[1];
};

// Bytes that the debug libraries write. The first two are those of gperftools, which people
// recognise in a debugger.
inline constexpr unsigned char kNewByte = 0xab;      // new memory
inline constexpr unsigned char kFreedByte = 0xcd;    // freed memory
inline constexpr unsigned char kRedZoneByte = 0xfd;  // before and after each object

// The families of functions: an object must be freed by the family that allocated it.
enum class AllocatedBy : uint8_t { kMalloc, kNew, kNewArray };

// DebugObject: the header that the debug libraries keep before each object of the program, and the
// red zones around the object.
//
// The memory from the heap ("raw") has this layout:
//
//   | OffsetRecord, unused | DebugObject, whose end | the program's  | red zone | unused |
//   | (large alignments)   | is the red zone before | object: `size` | after    |        |
//   |<-------------------- room ------------------->|
//
// The header ends where the object begins, so that any thread finds it by the program's pointer.
// If the object's alignment puts the header further into the raw memory, an OffsetRecord at the
// start of the raw memory has its offset, so that readers of the heap find it, too.
//
// State. The word `state` depends on the header's address, so that a copy of a header is not taken
// for a header.
//   kLive      the program has the object; both red zones have their pattern
//   kFreeing   a thread is freeing it
//   kFreed     in the queue of freed objects (instruments/debug/allocation.h); if the object is
//              `filled`, it has the pattern of freed memory
//   kRecycled  the memory is in the heap again; only a second free reads the state
//
// Synchronization. The thread that allocates writes all fields, then kLive (release). A thread that
// frees takes the object by exchanging kLive for kFreeing (acquire): of two threads that free one
// object, one fails and reports it. kFreed and kRecycled are written with the queue's lock held.
struct DebugObject {
  // The bits of each state are spread over the word, so a small change does not turn one state into
  // another.
  enum State : uint32_t {
    kLive = 0x5afe11fe,
    kFreeing = 0xf1ee1237,
    kFreed = 0xdeadf2ee,
    kRecycled = 0x2ec1c1ed,
  };

  static constexpr uint32_t kStateFactor = 0x9e3779b1;

  std::atomic<uint32_t> state;
  // A checksum of the fields that do not change after the allocation.
  uint32_t check;
  uint64_t number;  // of the allocation, from 1
  size_t size;      // that the program requested
  size_t room;      // bytes of raw memory before the object
  const CallStack* allocated_at;
  const CallStack* freed_at;
  AllocatedBy allocated_by;
  AllocatedBy freed_by;
  uint8_t alignment_shift;  // of an explicit alignment; 0 if there is none
  // True if the object is on pages of its own, and the page after them is protected.
  bool fenced;
  // True if its freed memory has the pattern.
  bool filled;
  unsigned char before[27];

  char* object() { return reinterpret_cast<char*>(this + 1); }
  const char* object() const { return reinterpret_cast<const char*>(this + 1); }
  const char* raw() const { return object() - room; }
  char* raw() { return object() - room; }

  static DebugObject* Of(const void* object) {
    return static_cast<DebugObject*>(const_cast<void*>(object)) - 1;
  }

  uint32_t Mark(State s) const { return s ^ AddressBits(); }
  bool Is(State s) const { return state.load(std::memory_order_acquire) == Mark(s); }
  // True if `state` is one of the states.
  bool IsMarked() const {
    const uint32_t mark = state.load(std::memory_order_acquire) ^ AddressBits();
    return mark == kLive || mark == kFreeing || mark == kFreed || mark == kRecycled;
  }
  uint32_t Checksum() const;
  bool ChecksumFits() const { return check == Checksum(); }

  // The bytes of the red zone after the object: at least 16, up to a multiple of 16; up to the
  // protected page if the object is fenced.
  size_t bytes_after() const { return AfterBytes(size, fenced, alignment_shift); }
  // The bytes of raw memory up to the end of the red zone, without a protected page.
  size_t RawBytes() const { return room + size + bytes_after(); }
  static constexpr size_t AfterBytes(size_t size, bool fenced, uint8_t alignment_shift) {
    if (fenced) {
      const size_t alignment = alignment_shift > 4 ? size_t{1} << alignment_shift : 16;
      return (size + alignment - 1) / alignment * alignment - size;
    }
    return (size + 31) / 16 * 16 - size;
  }

 private:
  uint32_t AddressBits() const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(this) >> 4) * kStateFactor;
  }
};

inline uint32_t DebugObject::Checksum() const {
  uint64_t sum = reinterpret_cast<uintptr_t>(this);
  const auto add = [&sum](uint64_t value) {
    sum = (sum ^ value) * 0x9e3779b97f4a7c15;
    sum ^= sum >> 29;
  };
  add(number);
  add(size);
  add(room);
  add(reinterpret_cast<uintptr_t>(allocated_at));
  add(static_cast<uint64_t>(allocated_by) | uint64_t{alignment_shift} << 8 |
      uint64_t{fenced} << 16);
  return static_cast<uint32_t>(sum ^ sum >> 32);
}

// Objects are aligned like malloc's.
static_assert(sizeof(DebugObject) % 16 == 0);
static_assert(offsetof(DebugObject, before) + sizeof(DebugObject::before) == sizeof(DebugObject));

// The record at the start of raw memory whose header is further in.
struct OffsetRecord {
  static constexpr auto kMark = static_cast<uintptr_t>(0x0ff5e7a1c3d2b496);

  uintptr_t mark;
  size_t room;

  static uintptr_t MarkAt(const void* raw) { return reinterpret_cast<uintptr_t>(raw) ^ kMark; }
};

// The header in the raw memory [raw, raw + bytes), which is in use; null when there is none, or
// when it is damaged beyond recognition. Reads the memory.
inline DebugObject* HeaderIn(void* raw, size_t bytes) {
  if (bytes < sizeof(DebugObject)) return nullptr;
  size_t room = sizeof(DebugObject);
  const auto* const record = static_cast<const OffsetRecord*>(raw);
  if (record->mark == OffsetRecord::MarkAt(raw)) room = record->room;
  if (room < sizeof(DebugObject) || room > bytes || room % 16 != 0) return nullptr;
  DebugObject* const object = DebugObject::Of(static_cast<char*>(raw) + room);
  return object->IsMarked() ? object : nullptr;
}

}  // namespace tcmalloc
