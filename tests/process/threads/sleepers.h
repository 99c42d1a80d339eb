// SPDX-License-Identifier: BSD-3-Clause
// Threads that sleep with full caches.
#pragma once

#include <array>
#include <barrier>
#include <thread>
#include <vector>

#include "../check.h"
#include "tcmalloc/tcmalloc.h"

inline size_t ThreadCacheBytes() {
  size_t bytes = 0;
  CHECK(tcmalloc_get_numeric_property("tcmalloc.current_total_thread_cache_bytes", &bytes) == 1);
  return bytes;
}

// Leaves free objects of many classes in the calling thread's cache.
inline void FillCache() {
  std::array<char*, 40> objects;
  for (const size_t size : {16, 48, 100, 256, 1000, 4000}) {
    for (char*& object : objects) object = NewMarked(size, 7);
    for (char* object : objects) FreeMarked(object, size, 7);
  }
}

// Threads that fill their caches and then sleep until the end.
class Sleepers {
 public:
  explicit Sleepers(unsigned count) : filled_(count + 1), released_(count + 1) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        FillCache();
        filled_.arrive_and_wait();
        released_.arrive_and_wait();
        FillCache();
      });
    }
    filled_.arrive_and_wait();
  }
  ~Sleepers() {
    released_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::barrier<> filled_;
  std::barrier<> released_;
  std::vector<std::thread> threads_;
};
