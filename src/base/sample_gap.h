// SPDX-License-Identifier: BSD-3-Clause
// The bytes between samples, as docs/design/sampling.md derives them, computed without a
// mathematics library. Pure functions, and the generator of one thread's gaps.
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
  // x = m * 2^exponent, with m between sqrt(1/2) and sqrt(2).
  double m = std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1023} << 52));
  if (m > 1.4142135623730951) {
    m /= 2;
    ++exponent;
  }
  // ln m = 2 artanh((m - 1) / (m + 1)). The series converges fast, as the quotient is below 0.172.
  const double t = (m - 1) / (m + 1);
  double sum = 0;
  for (int n = 15; n >= 1; n -= 2) sum = sum * t * t + 1.0 / n;
  return static_cast<double>(exponent) * kLn2 + 2 * t * sum;
}

// 1 - e^-x for x >= 0. Relative error below 1e-11, also where x is close to 0.
constexpr double OneMinusExp(double x) {
  if (x > 50) return 1;
  // With f(x) = 1 - e^-x, f(2x) = f(x) (2 - f(x)): halve x until the series converges fast.
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

// How many objects of `size` bytes one sampled object represents, at a sampling interval of `mean`
// bytes: one divided by the probability that it is sampled. Requires: size > 0, mean > 0.
constexpr double SampleWeight(size_t size, size_t mean) {
  return 1 / OneMinusExp(static_cast<double>(size) / static_cast<double>(mean));
}

// Pseudo-random gaps. Not thread-safe.
class SampleGaps {
 public:
  // An upper bound of every gap.
  static constexpr size_t kMaxGap = SIZE_MAX >> 3;

  constexpr explicit SampleGaps(uint64_t seed) : state_(seed) {}

  // Bytes to allocate before the next sample; a larger object is sampled at once. The gap is the
  // integer part of an exponentially distributed number of the given mean, so an object of s bytes
  // is sampled with probability 1 - e^(-s/mean).
  constexpr size_t Next(size_t mean) {
    // Uniform over the multiples of 2^-53 in (0, 1].
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
