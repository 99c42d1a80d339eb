// SPDX-License-Identifier: BSD-3-Clause
//
// A thread inherits the cache of one that exited. So thousands of threads, one after the other,
// each with a MiB of small objects, cost no more memory than the first few.
#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kMiB = 1 << 20;

// Allocates and frees the objects of one thread: about a MiB in sizes that change from thread to
// thread.
void* AllocateAndFree(void* argument) {
  auto size = reinterpret_cast<size_t>(argument);
  constexpr size_t kMost = kMiB / 16;
  static thread_local char* objects[kMost];
  const size_t count = kMiB / size;
  for (size_t i = 0; i < count; ++i) {
    objects[i] = static_cast<char*>(Malloc(size));
    CHECK(objects[i] != nullptr);
    objects[i][0] = objects[i][size - 1] = 1;
  }
  for (size_t i = 0; i < count; ++i) Free(objects[i]);
  return nullptr;
}

// Allocates and leaves the objects to the main thread.
std::vector<char*> left_behind;
void* AllocateOnly(void*) {
  for (int i = 0; i < 1000; ++i) left_behind.push_back(NewMarked(1000, 0x41));
  return nullptr;
}

void RunThread(void* (*body)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, body, argument) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  const size_t sizes[] = {16, 48, 200, 1000, 5000};
  // The most so far. It depends on the CPUs on which the threads ran last.
  size_t resident = 0;
  size_t resident_after = 0;
  size_t in_use = 0;
  for (int i = 0; i < 2000; ++i) {
    RunThread(AllocateAndFree, reinterpret_cast<void*>(sizes[i % 5]));
    // By the 500th thread each shard of the allocator has seen all sizes.
    size_t* const most = i < 500 ? &resident : &resident_after;
    *most = std::max(*most, ResidentBytes());
    if (i == 499) in_use = mallinfo2().uordblks;
  }
  const size_t in_use_after = mallinfo2().uordblks;
  dprintf(STDOUT_FILENO, "500 threads: %zu KiB resident; 2000 threads: %zu KiB\n", resident >> 10,
          resident_after >> 10);
  CHECK(resident_after <= resident + kMiB);
  CHECK(in_use_after <= in_use + 4096);

  // Objects of ended threads stay valid, and their memory is reused once they are freed.
  left_behind.reserve(400000);
  size_t first = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 100; ++i) RunThread(AllocateOnly, nullptr);
    for (char* object : left_behind) FreeMarked(object, 1000, 0x41);
    left_behind.clear();
    malloc_trim(0);
    if (round == 0) first = ResidentBytes();
  }
  CHECK(ResidentBytes() <= first + kMiB);
  return 0;
}
