// SPDX-License-Identifier: BSD-3-Clause
// Countdown: bytes that a thread may allocate until a sample is due (profiler/sampler.h). The fast
// path counts down one number; here is what that says.
//
// By the owning thread; but Alarm by any. What an alarm overwrites is how much the fast path had
// counted, so the gap up to the next sample is lost with it. It is then drawn anew: how long an
// exponentially distributed gap goes on does not depend on how long it has lasted, and when alarms
// come does not depend on the gaps, so the samples stay unbiased.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tcmalloc {

class Countdown {
 public:
  // Of a sample that is never due. Not reached in a thread's life, and less than half of what the
  // counter can hold.
  static constexpr size_t kNever = (SIZE_MAX >> 2) + 1;

  struct Due {
    bool sample = false;
    // The gap was lost: to be set anew before it is known whether a sample is due.
    bool gap_lost = false;
  };

  // `counter` is always what the fast path of the same thread counts down. No sample is due.
  void Reset(std::atomic<size_t>& counter) {
    generation_ = 0;
    alarmed_.store(false, std::memory_order_relaxed);
    Set(counter, kNever);
  }

  // The allocation with which more than so many bytes have been allocated is to see to it.
  void SetSample(std::atomic<size_t>& counter, size_t bytes, uint32_t generation) {
    generation_ = generation;
    Set(counter, bytes);
  }
  // That of the last SetSample, for whoever wants to know for which setting it was; 0: none yet.
  uint32_t generation() const { return generation_; }

  // An allocation of `bytes` bytes that the fast path has not counted. What is due is to be set
  // anew.
  Due Count(std::atomic<size_t>& counter, size_t bytes) {
    const size_t left = counter.load(std::memory_order_acquire);
    // An alarm that came while the owner was about to store is not heard; its flag stays, and may
    // lose one gap that is used up just so, later.
    if (left == 0 && alarmed_.load(std::memory_order_relaxed)) {
      alarmed_.store(false, std::memory_order_relaxed);
      gap_lost_ = samples_;
    }
    if (gap_lost_) return {false, true};
    if (!samples_) return Set(counter, kNever), Due();
    if (left < bytes) return {true, false};
    counter.store(left - bytes, std::memory_order_relaxed);
    return {};
  }

  // The next allocation takes the slow path, as good as: it does not when the owner allocates just
  // then. Any thread.
  void Alarm(std::atomic<size_t>& counter) {
    alarmed_.store(true, std::memory_order_relaxed);
    // With release: who sees the zero sees whose it is.
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
