// SPDX-License-Identifier: BSD-3-Clause
// Ends a command at the first SIGINT or SIGTERM in an orderly way, and at the second one at once: a
// read of a process's memory may never end, since its user may serve that memory with a
// userfaultfd, and only a signal that ends the program ends such a read.
#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace cli {

// While one exists, a thread waits for SIGINT and SIGTERM. The first one sets interrupted(), the
// second one ends the program.
class InterruptWatch {
 public:
  InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch();

  static bool interrupted();
  // False if a signal was received.
  bool WaitUntil(std::chrono::steady_clock::time_point time);

 private:
  void Watch();

  sigset_t signals_;
  sigset_t before_;
  std::mutex lock_;
  std::condition_variable changed_;
  bool ends_ = false;  // guarded by lock_
  std::thread thread_;
};

}  // namespace cli
