// SPDX-License-Identifier: BSD-3-Clause
// FindReferrers finds the words of a target that point to an object. For each word it finds the
// chain by which the program reaches it, which begins at a root and leads through other objects.
//
// The search goes from the roots to all objects, breadth first, and records from where it reached
// each. So the chain to a root is a shortest one, and no chain goes through the object itself. Then
// it searches the memory that is reachable only through the object, and last the leaked objects.
//
// Thread safety: none. Cost: it reads each word of the target's objects and roots once or twice.
// Memory: 4 bytes for each object of the heap, and 4 for each object that is reached and not yet
// followed. The target does not pause. The marker of a leak check needs less memory, but does not
// record the chains.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heap/objects.h"
#include "heap/search_space.h"
#include "image/mirror.h"

namespace cli {

struct Link {
  Holder holder;
  Address at = 0;     // the address of the word; 0 for a register
  Address value = 0;  // the value of the word
};

// A chain from the object to a root: the first link points to the object, each other link to the
// holder of the link before it.
struct Chain {
  enum class End {
    kRoot,
    kLeaked,  // no pointer points to the last holder, or only one from a cycle does
    kItself,  // reachable only through the object itself: a cycle
  };
  std::vector<Link> links;
  // After the first `links_before_gap` links, `gap` links were left out.
  size_t links_before_gap = 0;
  uint64_t gap = 0;
  End end = End::kRoot;
};

struct ReferrerSearch {
  Place place;                // of the address
  uint64_t words = 0;         // that point to the object
  uint64_t words_leaked = 0;  // the part of them in unreachable memory
  uint64_t words_itself = 0;  // the part of them in the object itself, and in memory that is
                              // reachable only through it
  std::vector<Chain> chains;  // of the first words; the shortest chains from roots come first
  // The objects that are reachable only through the object, not counting it.
  uint64_t only_objects = 0;
  uint64_t only_bytes = 0;
  // Memory that the program has registered, from which the search began as well.
  std::vector<std::pair<Address, Address>> registered_roots;
  // The number of bytes of objects and roots that could not be read, and the address of the first
  // one.
  uint64_t unread_bytes = 0;
  Address first_unread = 0;
  // The reasons why there may be more referrers, one per line.
  std::vector<std::string> incomplete;
};

struct ReferrerOptions {
  size_t chains = 10;
  size_t links = 16;  // of a chain
  // Whether the memory at an address is missing because it was never written.
  std::function<bool(Address)> is_unwritten = [](Address) { return false; };
};

// Finds the pointers into an object in use or free; for an address in no object, the pointers to
// exactly that address. The threads are those of the mirror. `main_thread` is the PID of the
// process. `stopped` is true if the mirror is of one moment. Adds to `guards`
// the locks and change flags of the records that it read. Throws BadImage.
ReferrerSearch FindReferrers(Mirror& mirror, const Target& target, pid_t main_thread, bool stopped,
                             Address address, const ReferrerOptions& options,
                             std::vector<Guard>* guards);

}  // namespace cli
