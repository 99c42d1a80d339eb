// SPDX-License-Identifier: BSD-3-Clause
// Countdown: bytes that a thread may allocate until a sample is due (tools/profiler/sampler.h). The
// fast path counts down one number, which this class interprets.
//
// Called by the owning thread; Alarm by any. An alarm overwrites the fast path's count, so the gap
// up to the next sample is lost with it, and drawn anew. The samples stay unbiased: how long an
// exponentially distributed gap goes on does not depend on how long it has lasted, and when alarms
// come does not depend on the gaps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class Countdown {
 public:
  // The gap of a sample that is never due. No thread allocates as many bytes; less than half of
  // what the counter can hold.
  static constexpr size_t kNever = (SIZE_MAX >> 2) + 1;

  struct Due {
    bool sample = false;
    // The gap was lost: draw a new one, then it is known whether a sample is due.
    bool gap_lost = false;
  };

  // `counter` is always the one that the fast path of the same thread counts down. No sample is
  // due.
  void Reset(std::atomic<size_t>& counter) {
    generation_ = 0;
    alarmed_.store(false, std::memory_order_relaxed);
    Set(counter, kNever);
  }

  // A sample is due at the allocation with which more than `bytes` have been allocated.
  void SetSample(std::atomic<size_t>& counter, size_t bytes, uint32_t generation) {
    generation_ = generation;
    Set(counter, bytes);
  }
  // The generation of the last SetSample; 0: none yet.
  uint32_t generation() const { return generation_; }

  // Counts an allocation of `bytes` that the fast path has not counted. The caller sets anew what
  // is due. Without samples it counts, too: other threads see by the count that this one is at
  // work (ThreadCache::ActivityStamp).
  Due Count(std::atomic<size_t>& counter, size_t bytes) {
    const size_t left = counter.load(std::memory_order_acquire);
    // If the owner overwrites an alarm, the alarm has no effect. Its flag stays, and may later lose
    // one gap that is used up exactly.
    if (left == 0 && alarmed_.load(std::memory_order_relaxed)) {
      alarmed_.store(false, std::memory_order_relaxed);
      gap_lost_ = samples_;
    }
    if (gap_lost_) return {false, true};
    if (left < bytes) {
      if (samples_) return {true, false};
      // An alarm, or more bytes than any thread allocates.
      return Set(counter, kNever), Due();
    }
    counter.store(left - bytes, std::memory_order_relaxed);
    return {};
  }

  // Makes the next allocation take the slow path, unless the owner allocates at this moment.
  // Thread safety: any.
  void Alarm(std::atomic<size_t>& counter) {
    alarmed_.store(true, std::memory_order_relaxed);
    // With release: a thread that sees the zero (acquire) sees the flag.
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
