// SPDX-License-Identifier: BSD-3-Clause
// Countdown: bytes that a thread may allocate until one of two things is due: a visit (see
// runtime/idle_release.h), or a sample (profiler/sampler.h). The fast path counts down one number,
// the nearer of the two; here is how far away each was when that was set.
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
  // Of a visit or a sample that is never due. Not reached in a thread's life, and less than half of
  // what the counter can hold.
  static constexpr size_t kNever = (SIZE_MAX >> 2) + 1;

  struct Due {
    bool visit = false;
    bool sample = false;
    // The gap was lost: to be set anew before it is known whether a sample is due.
    bool gap_lost = false;
  };

  // `counter` is always what the fast path of the same thread counts down. Neither is due.
  void Reset(std::atomic<size_t>& counter) {
    until_visit_ = kNever;
    until_sample_ = kNever;
    generation_ = 0;
    gap_lost_ = false;
    alarmed_.store(false, std::memory_order_relaxed);
    Store(counter);
  }

  // The allocation with which more than so many bytes have been allocated is to see to it.
  void SetVisit(std::atomic<size_t>& counter, size_t bytes) {
    Settle(counter);
    until_visit_ = bytes;
    Store(counter);
  }
  void SetSample(std::atomic<size_t>& counter, size_t bytes, uint32_t generation) {
    Settle(counter);
    until_sample_ = bytes;
    generation_ = generation;
    gap_lost_ = false;
    Store(counter);
  }
  // That of the last SetSample, for whoever wants to know for which setting it was; 0: none yet.
  uint32_t generation() const { return generation_; }

  // An allocation of `bytes` bytes that the fast path has not counted. What is due is to be set
  // anew.
  Due Count(std::atomic<size_t>& counter, size_t bytes) {
    Settle(counter);
    Due due = {Reached(until_visit_, bytes), false, gap_lost_};
    if (!due.visit) Lower(&until_visit_, bytes);
    if (!gap_lost_) {
      due.sample = Reached(until_sample_, bytes);
      if (!due.sample) Lower(&until_sample_, bytes);
    }
    Store(counter);
    return due;
  }

  // A visit is due with the next allocation, as good as: it is not when the owner allocates just
  // then. Any thread.
  void Alarm(std::atomic<size_t>& counter) {
    alarmed_.store(true, std::memory_order_relaxed);
    // With release: who sees the zero sees whose it is.
    counter.store(0, std::memory_order_release);
  }

 private:
  static bool Reached(size_t until, size_t bytes) { return until != kNever && until < bytes; }
  static void Lower(size_t* until, size_t bytes) {
    if (*until != kNever) *until -= bytes;
  }

  // Takes what the fast path has counted off both; Store is to follow.
  void Settle(const std::atomic<size_t>& counter) {
    const size_t left = counter.load(std::memory_order_acquire);
    // An alarm that came while the owner was about to store is not heard; its flag stays, and may
    // lose one gap that is used up just so, later.
    if (left == 0 && alarmed_.load(std::memory_order_relaxed)) {
      alarmed_.store(false, std::memory_order_relaxed);
      until_visit_ = 0;
      gap_lost_ = until_sample_ != kNever;
      return;
    }
    const size_t counted = Nearer() - left;
    Lower(&until_visit_, counted);
    Lower(&until_sample_, counted);
  }
  void Store(std::atomic<size_t>& counter) { counter.store(Nearer(), std::memory_order_relaxed); }
  // What the counter was set to.
  size_t Nearer() const {
    if (gap_lost_) return 0;  // it is to be set anew before anything else is allocated
    return until_visit_ < until_sample_ ? until_visit_ : until_sample_;
  }

  size_t until_visit_ = kNever;
  size_t until_sample_ = kNever;
  uint32_t generation_ = 0;
  bool gap_lost_ = false;
  std::atomic<bool> alarmed_{false};
};

}  // namespace tcmalloc
