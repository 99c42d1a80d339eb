// SPDX-License-Identifier: BSD-3-Clause
// Pointee is what a pointer points to: an object of the heap with its state, other memory, or
// nothing, with the reason.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "heap/objects.h"
#include "heap/profile.h"
#include "image/image.h"

namespace cli {

struct Pointee {
  enum class Kind {
    kNull,       // in the first pages, which no program can map: null, or null plus an offset
    kMinus,      // in the last pages: -1, an error value, or null minus an offset
    kNoAddress,  // with upper bits that no address of a program has
    kHeap,       // in the heap, at `place`; the pool of guarded samples is a part of the heap
    kAfterHeap,  // a short way after memory of the heap
    kModule,     // in a mapping of the program or of a library: `name`
    kStack,      // of `thread`
    kMemory,     // other memory; `name` is that of the mapping, if it has one
    kNothing,    // no memory is there
  };

  // True if it is in an object that is not in use. The object may have been freed, or never
  // allocated.
  bool IsFreeObject() const {
    return kind == Kind::kHeap &&
           (place.kind == Place::Kind::kFree || place.kind == Place::Kind::kCached ||
            place.kind == Place::Kind::kQuarantined);
  }
  // True if it is in free pages: an object in them, which may have been a large one, was freed with
  // its pages.
  bool IsFreePages() const { return kind == Kind::kHeap && is_free_span; }
  bool IsFree() const { return IsFreeObject() || IsFreePages(); }

  Address address = 0;
  Kind kind = Kind::kNothing;
  Place place;             // kHeap
  std::string span_state;  // in words
  bool is_free_span = false;
  int64_t age_ms = 0;  // of the span, since it was handed out
  std::optional<Sample> sample;
  // kHeap and kAfterHeap: the last object in use that begins before the address, if requested.
  std::optional<Place> before;
  uint64_t after_heap = 0;  // kAfterHeap: bytes from its end
  pid_t thread = 0;
  std::string name;
  // kNoAddress: the address without its upper bits is in the heap.
  bool tagged = false;
  // The bytes of a kNoAddress or kNothing in the order of memory, if they are text.
  std::string text;
  // The reason why the records of the heap do not describe the address; empty if they do.
  std::string problem;
};

// The last object in use that begins before the address, in the region that contains the address or
// ends last before it. Nullopt if the nearest spans before the address have no such object. Throws
// BadImage.
std::optional<Place> LastInUseBefore(const HeapObjects& objects, Address address);

// Finds pointees in an image.
class Pointees {
 public:
  // `objects` is null if the heap cannot be read. All outlive this object.
  Pointees(Image& image, const HeapObjects* objects);

  Pointee At(Address address) const;
  // Like Find, with the object before.
  Pointee WithNeighbour(Address address) const;
  // The mapping with that address, or null.
  const Mapping* MappingAt(Address address) const;
  // The mapping that begins next after that address, or null.
  const Mapping* MappingAfter(Address address) const;
  const Image& image() const { return image_; }

 private:
  // True if there is only inaccessible memory, or none, from `end` to the address.
  bool IsNextTo(Address end, Address address) const;
  void FindInHeap(Pointee* pointee) const;
  void FindObject(Pointee* pointee) const;
  void FindInMappings(Pointee* pointee) const;

  Image& image_;
  const HeapObjects* const objects_;
  const std::vector<Mapping> mappings_;
  std::vector<std::pair<Address, Address>> regions_;
  uint64_t word_bytes_ = 8;
  unsigned address_bits_ = 47;
};

}  // namespace cli
