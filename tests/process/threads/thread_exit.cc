// SPDX-License-Identifier: BSD-3-Clause
//
// A thread inherits the cache of one that exited. So thousands of threads, one after the other,
// each with a MiB of small objects, cost no more memory than the first few. All run on one CPU, so
// that they use the same shard of the allocator, and the memory is what the allocator counts.
#include <malloc.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <vector>

#include "../check.h"

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

// The memory that the allocator has in use, or keeps.
size_t ActualBytes() {
  static const auto stats_json =
      reinterpret_cast<size_t (*)(char*, size_t)>(dlsym(RTLD_DEFAULT, "tcmalloc_stats_json"));
  static char json[1 << 16];
  constexpr char kName[] = "\"actual_bytes\":";
  CHECK(stats_json != nullptr && stats_json(json, sizeof(json)) < sizeof(json));
  const char* const at = strstr(json, kName);
  CHECK(at != nullptr);
  return strtoull(at + strlen(kName), nullptr, 10);
}

void StayOnThisCpu() {
  const int cpu = sched_getcpu();
  CHECK(cpu >= 0 && cpu < CPU_SETSIZE);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
}

void RunThread(void* (*body)(void*), void* argument) {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, body, argument) == 0);
  CHECK(pthread_join(thread, nullptr) == 0);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  StayOnThisCpu();
  const size_t sizes[] = {16, 48, 200, 1000, 5000};
  size_t most = 0;
  size_t most_after = 0;
  size_t in_use = 0;
  for (int i = 0; i < 2000; ++i) {
    RunThread(AllocateAndFree, reinterpret_cast<void*>(sizes[i % 5]));
    size_t* const bytes = i < 500 ? &most : &most_after;
    *bytes = std::max(*bytes, ActualBytes());
    if (i == 499) in_use = mallinfo2().uordblks;
  }
  const size_t in_use_after = mallinfo2().uordblks;
  dprintf(STDOUT_FILENO, "500 threads: %zu KiB; 2000 threads: %zu KiB\n", most >> 10,
          most_after >> 10);
  CHECK(most_after <= most + kMiB);
  CHECK(in_use_after <= in_use + 4096);

  // Objects of ended threads stay valid, and their memory is reused once they are freed.
  left_behind.reserve(400000);
  size_t first = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 100; ++i) RunThread(AllocateOnly, nullptr);
    for (char* object : left_behind) FreeMarked(object, 1000, 0x41);
    left_behind.clear();
    malloc_trim(0);
    if (round == 0) first = ActualBytes();
  }
  CHECK(ActualBytes() <= first + kMiB);
  return 0;
}
