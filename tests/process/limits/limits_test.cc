// SPDX-License-Identifier: BSD-3-Clause
//
// Tests a memory limit in a process with threads.
#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

#include "../check.h"
#include "tcmalloc/malloc_extension.h"

namespace {

using tcmalloc::MallocExtension;

constexpr size_t kMiB = size_t{1} << 20;

TEST(LimitsTest, Library) { RequireLibraryUnderTest(); }

// Free objects of every class, as many as the calling thread's cache keeps.
void FillCaches() {
  std::vector<void*> objects;
  for (int round = 0; round < 20; ++round) {
    for (size_t size = 64; size < 200000; size += size / 8) {
      while (objects.size() * size < 256 << 10) objects.push_back(NewMarked(size, 1));
      for (void* const object : objects) Free(object);
      objects.clear();
    }
  }
}

size_t FlushAllCaches() {
  return MallocExtension::FlushThreadCaches() + MallocExtension::FlushCentralCaches();
}

// This is more than records and nearly empty spans take in the heaps of these tests.
constexpr size_t kRecords = 4 * kMiB;

// Before an allocation fails, the caches of sleeping threads are emptied.
TEST(LimitsTest, CachesAreEmptiedBeforeAnAllocationFails) {
  constexpr size_t kLimit = 96 * kMiB;
  MallocExtension::SetMemoryLimit(kLimit, MallocExtension::LimitKind::kHard);
  std::barrier filled(5);
  std::barrier done(5);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2; ++round) {
        FillCaches();
        filled.arrive_and_wait();
        done.arrive_and_wait();
      }
    });
  }
  // The first round shows how much memory the caches hold.
  filled.arrive_and_wait();
  CHECK(FlushAllCaches() > 2 * kRecords);
  done.arrive_and_wait();
  filled.arrive_and_wait();
  // Takes everything but the records, in one piece.
  void* const large = Malloc(kLimit - kRecords);
  CHECK(large != nullptr);
  Free(large);
  done.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
