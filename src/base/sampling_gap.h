// SPDX-License-Identifier: BSD-3-Clause
// The bytes between samples: their distribution, as docs/design/sampling.md derives it, computed
// without a mathematics library, the generator of one thread's gaps (SampleGaps), and the count
// down to the next sample (Countdown).
#pragma once

#include <atomic>
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

// Bytes that a thread may allocate until a sample is due
// (instruments/profiles/sampler.h). The fast path counts down one number, which this class
// interprets.
//
// The owning thread calls all functions. Any thread may call Alarm; so does the tcmalloc command
// from outside the process, by storing the same two values in the same order (process/control.h).
// An alarm overwrites the fast path's count, so the gap up to the next sample is lost, and a new
// one is drawn. The samples stay unbiased: the rest of an exponentially distributed gap does not
// depend on the bytes that were counted before, and the time of an alarm does not depend on the
// gaps.
class Countdown {
 public:
  // The gap of a sample that is never due. No thread allocates that many bytes; the number is less
  // than half of the counter's maximum.
  static constexpr size_t kNever = (SIZE_MAX >> 2) + 1;

  struct Due {
    bool sample = false;
    // The gap was lost: the caller draws a new one, and then knows whether a sample is due.
    bool gap_lost = false;
  };

  // Starts without a due sample. In every function `counter` is the one that the fast path of the
  // same thread counts down.
  void Reset(std::atomic<size_t>& counter) {
    generation_ = 0;
    alarmed_.store(false, std::memory_order_relaxed);
    Set(counter, kNever);
  }

  // Makes a sample due at the allocation with which the thread has allocated more than `bytes`.
  void SetSample(std::atomic<size_t>& counter, size_t bytes, uint32_t generation) {
    generation_ = generation;
    Set(counter, bytes);
  }
  // The generation of the last SetSample; 0 before the first.
  uint32_t generation() const { return generation_; }

  // Counts an allocation of `bytes` that the fast path has not counted. The caller then sets the
  // next sample. The count also changes without samples, because other threads see by it that this
  // one is active (ThreadCache::ActivityStamp).
  Due Count(std::atomic<size_t>& counter, size_t bytes) {
    const size_t left = counter.load(std::memory_order_acquire);
    // If the owner overwrites an alarm, the alarm has no effect. Its flag stays set, and a later
    // gap that is used up exactly to 0 is then taken for an alarm and drawn anew.
    if (left == 0 && alarmed_.load(std::memory_order_relaxed)) {
      alarmed_.store(false, std::memory_order_relaxed);
      gap_lost_ = samples_;
    }
    if (gap_lost_) return {false, true};
    if (left < bytes) {
      if (samples_) return {true, false};
      // The count reached 0 by an alarm, or after more bytes than any thread allocates.
      return Set(counter, kNever), Due();
    }
    counter.store(left - bytes, std::memory_order_relaxed);
    return {};
  }

  // Makes the next allocation take the slow path, unless the owner allocates at this moment.
  // Thread safety: any.
  void Alarm(std::atomic<size_t>& counter) {
    alarmed_.store(true, std::memory_order_relaxed);
    // Release order: a thread that loads the zero with acquire sees the flag.
    counter.store(0, std::memory_order_release);
  }

 private:
  void Set(std::atomic<size_t>& counter, size_t bytes) {
    samples_ = bytes != kNever;
    gap_lost_ = false;
    counter.store(bytes, std::memory_order_relaxed);
  }

  bool samples_ = false;
  bool gap_lost_ = false;
  uint32_t generation_ = 0;
  std::atomic<bool> alarmed_{false};
};

}  // namespace tcmalloc
