// SPDX-License-Identifier: BSD-3-Clause
// Strands memory in thread caches: one thread after the other fills and empties its cache with
// objects of many sizes, sleeps for a moment, and then waits for the others. The program needs a
// few MiB at any time; its caches grow from thread to thread.
//
//   pressure_limit THREADS   prints the largest resident memory, in bytes, when all had their turn

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../check.h"

namespace {

constexpr size_t kBytesOfEachSize = size_t{8} << 20;

pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t all_done;
size_t most_resident = 0;

void* FillAndEmpty(void*) {
  pthread_mutex_lock(&turn);
  {
    std::vector<void*> objects;
    for (size_t size = 64; size <= size_t{32} << 10; size += size / 8) {
      for (int round = 0; round < 3; ++round) {
        for (size_t bytes = 0; bytes < kBytesOfEachSize; bytes += size) {
          objects.push_back(Malloc(size));
          CHECK(objects.back() != nullptr);
          memset(objects.back(), 1, size);
        }
        for (void* const object : objects) Free(object);
        objects.clear();
      }
    }
  }
  SleepMs(50);
  const size_t resident = ResidentBytes();
  if (resident > most_resident) most_resident = resident;
  pthread_mutex_unlock(&turn);
  pthread_barrier_wait(&all_done);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  const unsigned threads = static_cast<unsigned>(atoi(argv[1]));
  CHECK(threads > 0 && threads <= 1000);
  CHECK(pthread_barrier_init(&all_done, nullptr, threads + 1) == 0);
  std::vector<pthread_t> started(threads);
  for (pthread_t& thread : started) thread = StartThread(&FillAndEmpty, nullptr);
  pthread_barrier_wait(&all_done);
  for (const pthread_t thread : started) JoinThread(thread);
  printf("%zu\n", most_resident);
  return 0;
}
