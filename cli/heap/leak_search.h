// SPDX-License-Identifier: BSD-3-Clause
// FindLeaks: finds the unreachable objects of a target by the rules of the library's own leak
// checker, whose marker it runs on a copy of the target (formats/marker/).
//
// Thread safety: none. Cost: that of the marker; the target does not pause.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "heap/objects.h"
#include "image/mirror.h"

namespace cli {

struct LeakOptions {
  uint64_t max_pointer_offset = 1024;
  // Pointers are at multiples of this; 0 for multiples of their size.
  size_t pointer_alignment = 0;
};

struct Leak {
  Address start = 0;
  uint64_t bytes = 0;
  int64_t handed_out_ms = 0;  // the time of its span
  // True if the object is not reachable from another leaked object either.
  bool direct = false;
  // True if the object would be reachable if pointers counted everywhere in an object.
  bool reached_far = false;
  Address site = 0;              // the Site with which it was recorded; 0 if it was not recorded
  uint64_t requested_bytes = 0;  // when recorded
  Address sample = 0;            // its Sample; 0 if it is not sampled
  Address nearest = 0;           // without both, the nearest Sample of that size; 0 if there is
                                 // none
};

struct LeakSearch {
  std::vector<Leak> leaks;  // by address
  uint64_t objects_in_use = 0;
  uint64_t bytes_in_use = 0;
  uint64_t unread_bytes = 0;
  uint64_t words = 0;  // that were searched for pointers
  size_t word_bytes = sizeof(uint64_t);
  int64_t now_ms = 0;
  // The reasons why leaks may be missing, or reported wrongly, one per line. If there are any, the
  // report never says "no leaks".
  std::vector<std::string> incomplete;
};

// The probability that a leaked object of `bytes` bytes looks reachable because a word that is no
// pointer has the value of one. It is an upper bound: it takes each word that was searched for a
// random number.
double ChanceOfMissing(const LeakSearch& search, const LeakOptions& options, uint64_t bytes);
// An upper estimate of the leaked objects that the search has missed in this way: each leaked
// object that it found stands for those of its size that it did not find. HUGE_VAL if the number is
// unknown because hardly any of them is found.
double EstimateMissed(const LeakSearch& search, const LeakOptions& options);

// The threads are those of the mirror. `main_thread` is the PID of the process. `stopped` is true
// if the mirror is of one moment. Adds the guards on which the objects depend. Throws BadImage.
LeakSearch FindLeaks(Mirror& mirror, const Target& target, pid_t main_thread, bool stopped,
                     const LeakOptions& options, std::vector<Guard>* guards);

}  // namespace cli
