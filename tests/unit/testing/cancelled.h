// SPDX-License-Identifier: BSD-3-Clause
// Runs something in a thread that ends at the next cancellation point.
#pragma once

#include <pthread.h>

#include <functional>

namespace tcmalloc {

// True if `body` ran to its end: then it contains no cancellation point.
inline bool IsNoCancellationPoint(const std::function<void()>& body) {
  struct Call {
    const std::function<void()>& body;
    bool done = false;
  } call = {body};
  pthread_t thread;
  const auto run = [](void* context) -> void* {
    Call* const mine = static_cast<Call*>(context);
    pthread_cancel(pthread_self());
    mine->body();
    mine->done = true;
    pthread_testcancel();
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, run, &call) != 0) return false;
  void* result = nullptr;
  pthread_join(thread, &result);
  return call.done && result == PTHREAD_CANCELED;
}

}  // namespace tcmalloc
