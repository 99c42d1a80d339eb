// SPDX-License-Identifier: BSD-3-Clause

// Random: the SplitMix64 generator. The standard distributions may differ from one C++ library to
// the next; with this one a printed seed repeats the same benchmark everywhere. Allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace tcmalloc::bench {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

  // Uniform in [0, bound), but for a bias of at most bound / 2^64. Requires: bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

  // Like Below, with a multiplication instead of the division, for hot loops.
  // Requires: bound <= 2^32.
  uint32_t FastBelow(uint64_t bound) { return static_cast<uint32_t>((Next() >> 32) * bound >> 32); }

  // Uniform in [smallest, largest]. Requires: smallest <= largest, both below 2^32.
  uint32_t FastBetween(uint64_t smallest, uint64_t largest) {
    return static_cast<uint32_t>(smallest) + FastBelow(largest - smallest + 1);
  }

  // Uniform in [0, 1).
  double Fraction() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  template <typename T>
  void Shuffle(std::span<T> items) {
    for (size_t remaining = items.size(); remaining > 1; --remaining) {
      std::swap(items[remaining - 1], items[Below(remaining)]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace tcmalloc::bench
