// SPDX-License-Identifier: BSD-3-Clause
// Runs a part of a test in several threads that begin at the same time.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tcmalloc {

// Calls f(0) to f(n - 1), each in a thread of its own, and waits for all.
template <typename F>
void RunThreads(size_t n, F f) {
  std::atomic<size_t> ready{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < n; ++t) {
    threads.emplace_back([&ready, &f, n, t] {
      ready.fetch_add(1);
      while (ready.load() < n) std::this_thread::yield();
      f(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tcmalloc
