// SPDX-License-Identifier: BSD-3-Clause
// The types of the objects of a heap: C++ objects by their vtables, sampled ones by their call
// sites, the others by size.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heap/objects.h"
#include "heap/profile.h"
#include "heap/record.h"
#include "image/image.h"

namespace cli {

struct ObjectSum {
  uint64_t objects = 0;
  uint64_t bytes = 0;

  void Add(uint64_t object_bytes) {
    ++objects;
    bytes += object_bytes;
  }
};

// The objects in use at one moment.
struct ListedObjects {
  struct Entry {
    Address start = 0;
    uint64_t bytes = 0;
    uint32_t sample = 0;  // index in `stacks` plus 1; 0 if not sampled
    bool large = false;
  };
  std::vector<Entry> objects;                // by address
  std::vector<std::vector<Address>> stacks;  // of samples
};

// Throws Failure when there are more than fit into memory.
ListedObjects ListObjects(const HeapObjects& objects);

struct ObjectTypes {
  // The objects by the type and the offset of its vtable pointer in the object. If the offset is 0,
  // the object is of this type. Else it contains an object of this type after a length or a header:
  // it is an array, or a record of another allocator.
  std::map<std::pair<std::string, uint64_t>, ObjectSum> types;
  // Objects of no known type: the sampled ones, each counted once, so they are not estimates.
  Profile sites;
  ObjectSum sampled;
  std::map<uint64_t, ObjectSum> sizes;  // the others, by bytes; 0: large objects
  ObjectSum typed;
  ObjectSum all;
  // Objects whose contents are not readable. They are in `sites` and `sizes`, too.
  ObjectSum unread;
};

// `type_of` returns the type of an object that begins with that word; empty if it is not a C++
// object with a vtable. Reads the first words of each object from `contents`.
ObjectTypes FindTypes(const ListedObjects& list, Image& contents, size_t word_bytes,
                      const std::function<const std::string&(Address)>& type_of);

}  // namespace cli
