// SPDX-License-Identifier: BSD-3-Clause
// How far apart samples are: the mathematics of docs/design/sampling.md, without a mathematics
// library. Pure functions, and the generator of one thread's gaps.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

// The natural logarithm of a positive, normal number. Relative error below 1e-11.
constexpr double NaturalLog(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>((bits >> 52) & 0x7ff) - 1023;
  // x = m * 2^exponent, with m between the square roots of 1/2 and 2.
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1023} << 52));
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  // ln m = 2 artanh((m - 1) / (m + 1)), whose series ends soon, as the quotient is below 0.172.
  const double t = (m - 1) / (m + 1);
  double sum = 0;
  for (int n = 15; n >= 1; n -= 2) sum = sum * t * t + 1.0 / n;
  return static_cast<double>(exponent) * kLn2 + 2 * t * sum;
}

// 1 - e^-x for x >= 0. Relative error below 1e-11, also where x is close to 0.
constexpr double OneMinusExp(double x) {
  if (x > 50) return 1;
  // With f(x) = 1 - e^-x, f(2x) = f(x) (2 - f(x)): halve until the series ends soon.
  int halvings = 0;
  while (x > 0.25) {
    x /= 2;
    ++halvings;
  }
  double term = x;
  double result = x;
  for (int n = 2; n <= 9; ++n) {
    term *= -x / n;
    result += term;
  }
  for (; halvings > 0; --halvings) result *= 2 - result;
  return result;
}

// How many objects of `size` bytes a sampled one stands for, where samples are `mean` bytes apart
// on average: one divided by the probability that it is sampled. Requires: size > 0, mean > 0.
constexpr double SampleWeight(size_t size, size_t mean) {
  return 1 / OneMinusExp(static_cast<double>(size) / static_cast<double>(mean));
}

// Pseudo-random gaps. One thread at a time.
class SampleGaps {
 public:
  // More than any gap.
  static constexpr size_t kMaxGap = SIZE_MAX >> 3;

  constexpr explicit SampleGaps(uint64_t seed) : state_(seed) {}

  // Bytes that go by before the next sample; an object of more than that is sampled. The gap is the
  // integer part of an exponentially distributed number of the given mean, so that an object of s
  // bytes is sampled with probability 1 - e^(-s/mean).
  constexpr size_t Next(size_t mean) {
    // In (0, 1], each multiple of 2^-53 as likely as the others.
    const double u = static_cast<double>((NextRandom() >> 11) + 1) * 0x1p-53;
    const double gap = -NaturalLog(u) * static_cast<double>(mean);
    return gap < static_cast<double>(kMaxGap) ? static_cast<size_t>(gap) : kMaxGap;
  }

 private:
  // Splitmix (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
  constexpr uint64_t NextRandom() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace tcmalloc
