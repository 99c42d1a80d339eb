// SPDX-License-Identifier: BSD-3-Clause
// The objects of a target that runs on a debug library, and those that are damaged.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "heap/objects.h"
#include "heap/record.h"

namespace cli {

// DebugObjects: the headers and red zones of a target that runs on a debug library. The target's
// memory is untrusted: contradictory data count as damage.

// The header before an object of the program.
struct DebugHeader {
  enum class State {
    kLive,
    kFreed,     // in the queue of freed objects
    kChanging,  // a thread is allocating or freeing it
  };
  State state = State::kChanging;
  Address object = 0;
  uint64_t size = 0;
  uint64_t number = 0;        // of the allocation, from 1
  uint64_t bytes_after = 0;   // of the red zone
  uint64_t allocated_by = 0;  // see FunctionName
  uint64_t freed_by = 0;
  Address allocated_at = 0;  // CallStack records; 0 if unknown
  Address freed_at = 0;
  bool intact = false;  // its checksum is correct, and its numbers fit the memory
  bool filled = false;  // the freed memory has the pattern
  std::vector<uint8_t> before;
};

struct Damage {
  enum class Kind { kNone, kHeader, kBeforeStart, kAfterEnd, kAfterFree };
  Kind kind = Kind::kNone;
  int64_t offset = 0;  // from the start of the object
  uint64_t bytes = 0;  // from the first damaged byte to the last one
  uint8_t found = 0;
  uint8_t expected = 0;
};

class DebugObjects {
 public:
  // Throws Failure when the target's library is not a debug library, or is a later version.
  explicit DebugObjects(const Target& target);
  // True if the constructor would not throw.
  static bool CanRead(const Target& target);

  // The header in an object of the heap. nullopt if no header can be recognized, or if the memory
  // cannot be read: then `*readable` is false.
  std::optional<DebugHeader> HeaderIn(const Object& raw, bool* readable) const;
  // The first bytes of the object, as many as a header has; fewer when they cannot be read.
  std::vector<char> HeaderBytes(const Object& raw) const;
  // Checks the red zones, and the contents of a freed object. Throws BadImage.
  Damage Check(const DebugHeader& header) const;
  // The return addresses of a CallStack record, innermost first; none when the record is
  // inconsistent.
  std::vector<Address> StackAt(Address record) const;

  // "malloc", "operator new", "operator new[]"; and the function that frees.
  static std::string_view FunctionName(uint64_t by);
  static std::string_view FreeName(uint64_t by);

 private:
  // The state of a header with that word; nullopt if there is no header.
  std::optional<DebugHeader::State> StateOf(uint32_t word, Address header) const;
  uint32_t ChecksumOf(const Record& header) const;
  Damage CheckBytes(Address start, uint64_t bytes, uint8_t expected, const DebugHeader& header,
                    Damage::Kind kind) const;

  const Target& target_;
  const size_t header_bytes_;
  const uint64_t state_factor_;
  const uint64_t offset_mark_;
  const uint64_t live_, freed_, freeing_, recycled_;  // words of the states
  const uint8_t freed_byte_;
  const uint8_t red_zone_byte_;
};

// HeapDamage: the damaged objects of a target that runs on a debug library.

// The object whose memory ends where damaged memory begins: the program may have written past its
// end.
struct ObjectBefore {
  DebugHeader header;
  std::vector<Address> allocated_at;
};

struct DamagedObject {
  DebugHeader header;
  Damage damage;
  std::vector<Address> allocated_at;  // return addresses, innermost first; empty if unknown
  std::vector<Address> freed_at;
  std::optional<ObjectBefore> before;  // of a damaged header
};

// Memory in use in which no header can be recognized. Either a thread is about to write the header,
// or the header was overwritten.
struct HeaderlessMemory {
  Object raw;
  std::vector<char> contents;  // at the place of a header
  std::optional<ObjectBefore> before;
};

struct HeapDamage {
  // Further objects are only counted.
  static constexpr size_t kMostDamaged = 100;
  static constexpr size_t kMostHeaderless = 1000;

  uint64_t live = 0;
  uint64_t freed = 0;
  uint64_t changing = 0;    // not checked, since a thread was allocating or freeing them
  uint64_t closed = 0;      // freed and protected by a page fence: no code can write to them
  uint64_t unreadable = 0;  // the image lacks their memory
  uint64_t damaged = 0;
  uint64_t headerless = 0;
  std::vector<DamagedObject> damaged_objects;
  std::vector<HeaderlessMemory> headerless_memory;
};

HeapDamage FindDamage(const HeapObjects& heap);

// Finds out by a later reading, of a process that ran meanwhile, what headerless memory was. If it
// is the same, it was overwritten, since no thread takes that long to write a header: it becomes a
// damaged object. If it is not headerless any more, a thread was allocating it. Otherwise it stays,
// with its later contents.
void ExplainHeaderless(HeapDamage later, HeapDamage* found);

}  // namespace cli
