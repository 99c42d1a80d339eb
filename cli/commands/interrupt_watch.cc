// SPDX-License-Identifier: BSD-3-Clause
#include "commands/interrupt_watch.h"

#include <atomic>

namespace cli {
namespace {

std::atomic<bool> was_interrupted = false;

}  // namespace

InterruptWatch::InterruptWatch() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = std::thread([this] { Watch(); });
}

InterruptWatch::~InterruptWatch() {
  {
    const std::lock_guard lock(lock_);
    ends_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void InterruptWatch::Watch() {
  for (int signal = 0; sigwait(&signals_, &signal) == 0;) {
    const std::lock_guard lock(lock_);
    if (ends_) return;
    if (was_interrupted.exchange(true)) {
      std::signal(signal, SIG_DFL);
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
      raise(signal);
    }
    changed_.notify_all();
  }
}

bool InterruptWatch::interrupted() { return was_interrupted; }

bool InterruptWatch::WaitUntil(std::chrono::steady_clock::time_point time) {
  std::unique_lock lock(lock_);
  return !changed_.wait_until(lock, time, &interrupted);
}

}  // namespace cli
