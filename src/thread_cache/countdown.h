// SPDX-License-Identifier: BSD-3-Clause
// Countdown: bytes that a thread may allocate until a sample is due
// (instruments/profiles/sampler.h). The fast path counts down one number, which this class
// interprets.
//
// The owning thread calls all functions. Any thread may call Alarm; so does the tcmalloc command
// from outside the process, by storing the same two values in the same order (process/control.h).
// An alarm overwrites the fast path's count, so the gap up to the next sample is lost, and a new
// one is drawn. The samples stay unbiased: the rest of an exponentially distributed gap does not
// depend on the bytes that were counted before, and the time of an alarm does not depend on the
// gaps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

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
  friend struct FieldTable;

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
