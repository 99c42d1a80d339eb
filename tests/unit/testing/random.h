// SPDX-License-Identifier: BSD-3-Clause
// SeededRandom: the pseudo-random numbers of property tests. The seed is fixed in the test and
// printed, so that a failure can be repeated.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>

namespace tcmalloc {

class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed)
      : engine_(seed), trace_(__FILE__, __LINE__, testing::Message() << "seed " << seed) {
    printf("[   seed   ] %llu\n", static_cast<unsigned long long>(seed));
  }

  uint64_t Next() { return engine_(); }
  // Requires: limit > 0. The remainder's slight preference for small numbers does not matter here.
  size_t Below(size_t limit) { return static_cast<size_t>(engine_() % limit); }
  // Returns a number in [low, high].
  size_t Between(size_t low, size_t high) { return low + Below(high - low + 1); }
  // True once in `n` times.
  bool OneIn(size_t n) { return Below(n) == 0; }
  // For std::shuffle.
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
  // Adds the seed to the messages of failures while this object lives.
  testing::ScopedTrace trace_;
};

}  // namespace tcmalloc
