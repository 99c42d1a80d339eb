// SPDX-License-Identifier: BSD-3-Clause

// The three allocation patterns of the microbenchmark. They run on one thread, in a process that
// does nothing else; their other data is static, so that the allocator under test serves the
// measured objects only.
//
//   pair     malloc and free of one object of one hot size
//   burst    allocate 100 objects of one size, then free them in the order of their allocation
//   random   replace a random one of 1,000 live objects by one of a random small size
//
// The first word of each object is written, as a program would.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tcmalloc::bench {

struct Pattern {
  std::string_view name;
  std::string_view description;
  // Pairs of malloc and free in one timed slice. The number is fixed, so that each allocator does
  // the same work, and chosen for slices of 5 to 10 ms on a fast allocator. It is a multiple of
  // 100.
  uint64_t pairs_per_slice;
  void (*set_up)(uint64_t seed);
  void (*run)(uint64_t pairs);
  void (*tear_down)();
};

std::span<const Pattern> Patterns();

// Returns the index of the pattern of that name; Patterns().size() if it does not exist.
size_t FindPattern(std::string_view name);

}  // namespace tcmalloc::bench
