// SPDX-License-Identifier: BSD-3-Clause

// Threads that do not allocate (std::thread allocates once for each): pthreads, whose arguments lie
// in the caller's memory. The C library still allocates what it needs for a thread.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "bench/common/fail.h"
#include "bench/common/mapped_array.h"

namespace tcmalloc::bench {

// Starts body(argument). Both must outlive the thread.
template <typename Body, typename Argument>
struct ThreadStart {
  Body* body;
  Argument argument;

  pthread_t Create() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, &Main, this) != 0) Fail("cannot create a thread");
    return thread;
  }

 private:
  static void* Main(void* start) {
    auto* const self = static_cast<ThreadStart*>(start);
    (*self->body)(self->argument);
    return nullptr;
  }
};

inline void JoinThread(pthread_t thread) {
  if (pthread_join(thread, nullptr) != 0) Fail("cannot join a thread");
}

// Calls body(0) ... body(count - 1), each on a thread of its own, and returns when all have.
template <typename Body>
void RunThreads(size_t count, Body body) {
  struct Entry {
    ThreadStart<Body, size_t> start;
    pthread_t thread;
  };
  MappedArray<Entry> entries(count);
  for (size_t i = 0; i < count; ++i) {
    entries[i].start = {.body = &body, .argument = i};
    entries[i].thread = entries[i].start.Create();
  }
  for (Entry& entry : entries) JoinThread(entry.thread);
}

// Lets `count` threads wait for each other, again and again.
class Barrier {
 public:
  explicit Barrier(size_t count) {
    if (pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(count)) != 0) {
      Fail("cannot make a barrier of %zu", count);
    }
  }
  ~Barrier() { pthread_barrier_destroy(&barrier_); }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  void Wait() { pthread_barrier_wait(&barrier_); }

 private:
  pthread_barrier_t barrier_;
};

}  // namespace tcmalloc::bench
