// SPDX-License-Identifier: BSD-3-Clause
// Other threads for tests of locks: one that waits for a lock, and one that holds it.
#pragma once

#include <errno.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "os/spinlock.h"
#include "os/threads.h"
#include "testing/thread_state.h"

namespace tcmalloc {

// A thread that locks, runs `inside` with the lock held, and unlocks. `number` is the thread's
// number, or 0 for a new one.
class Waiter {
 public:
  Waiter(SpinLock& lock, std::function<void()> inside, uint32_t number = 0)
      : thread_([this, &lock, inside = std::move(inside), number] {
          this_thread_number = number;
          errno = 1234;
          id_ = ThisThreadId();
          lock.Lock();
          inside();
          lock.Unlock();
        }) {}
  ~Waiter() {
    if (thread_.joinable()) thread_.join();
  }

  // Returns when the thread sleeps, which it does only to wait for the lock.
  void WaitUntilAsleep() {
    while (id_ == 0) sched_yield();
    tcmalloc::WaitUntilAsleep(id_);
  }
  // Sends a signal to the sleeping thread, and returns when it sleeps again.
  void Interrupt(int signal) { InterruptSleep(id_, thread_.native_handle(), signal); }
  void Join() { thread_.join(); }

 private:
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

// Holds the lock in a thread of its own, until Free is called.
class Holder {
 public:
  explicit Holder(SpinLock& lock, uint32_t number = 0)
      : thread_([this, &lock, number] {
          this_thread_number = number;
          lock.Lock();
          step_ = 1;
          while (step_ != 2) sched_yield();
          lock.Unlock();
        }) {
    while (step_ != 1) sched_yield();
  }
  ~Holder() {
    Free();
    thread_.join();
  }
  void Free() { step_ = 2; }

 private:
  std::atomic<int> step_{0};
  std::thread thread_;
};

}  // namespace tcmalloc
