// SPDX-License-Identifier: BSD-3-Clause
// Bounds the time of the readings of many processes, so that one of them does not stop the list: a
// read of a process's memory may never end, since its user may serve that memory with a
// userfaultfd.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "image/image.h"

namespace cli {

// The process did not answer in time.
class NoAnswer : public Failure {
 public:
  explicit NoAnswer(pid_t pid)
      : Failure(fmt::format("process {} does not answer: a userfaultfd serves its memory, or the "
                            "machine is overloaded",
                            pid)) {}
};

// The first process that does not answer takes kMost, each later one kLeast.
class ReadingTime {
 public:
  // Returns f(), which runs in a thread of its own. Throws NoAnswer: then that thread continues,
  // so `f` owns all that it uses.
  template <typename F>
  auto Read(pid_t pid, F f) {
    std::packaged_task<decltype(f())()> task(std::move(f));
    auto result = task.get_future();
    std::thread(std::move(task)).detach();
    if (result.wait_for(limit_) == std::future_status::timeout) {
      limit_ = kLeast;
      throw NoAnswer(pid);
    }
    return result.get();
  }

 private:
  static constexpr std::chrono::milliseconds kMost{5000};
  static constexpr std::chrono::milliseconds kLeast{200};

  std::chrono::milliseconds limit_ = kMost;
};

}  // namespace cli
