// SPDX-License-Identifier: BSD-3-Clause
//
// Tests memory limits in a real process. Each test runs in a child of its own: a limit counts
// memory that the heap has got before.
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <barrier>
#include <new>
#include <thread>
#include <vector>

#include "../check.h"
#include "../child.h"
#include "tcmalloc/malloc_extension.h"

namespace {

using tcmalloc::MallocExtension;

constexpr size_t kMiB = size_t{1} << 20;

template <typename Body>
void ExpectChildSucceeds(Body body) {
  const ChildResult result = RunInChild(body, 60);
  EXPECT_TRUE(result.exited && result.exit_code == 0) << "signal " << result.signal << "\n"
                                                      << result.err;
}

// A list through the objects' first words: nothing else is allocated.
struct List {
  void** newest = nullptr;
  size_t count = 0;

  bool Add(size_t size) {
    void** const object = static_cast<void**>(Malloc(size));
    if (object == nullptr) return false;
    memset(object, 0x33, size);
    *object = newest;
    newest = object;
    ++count;
    return true;
  }
  void Clear() {
    while (newest != nullptr) {
      void** const next = static_cast<void**>(*newest);
      Free(newest);
      newest = next;
    }
    count = 0;
  }
};

TEST(LimitsTest, Library) { RequireLibraryUnderTest(); }

TEST(LimitsTest, EveryEntryPointMeetsTheHardLimit) {
  ExpectChildSucceeds([] {
    const size_t resident = ResidentBytes();
    MallocExtension::SetMemoryLimit(64 * kMiB, MallocExtension::LimitKind::kHard);
    const size_t sizes[] = {5000, 64, 100000, kMiB, 20 * kMiB, 9};
    for (const size_t size : sizes) {
      List list;
      errno = 0;
      while (list.Add(size)) {
      }
      CHECK(errno == ENOMEM);
      const size_t got = list.count * malloc_usable_size(list.newest);
      if (size < 20 * kMiB) CHECK(got > 57 * kMiB);
      CHECK(got <= 64 * kMiB);
      CHECK(ResidentBytes() < resident + 70 * kMiB);
      errno = 0;
      CHECK(Calloc(1, 30 * kMiB) == nullptr && errno == ENOMEM);
      errno = 0;
      CHECK(Realloc(list.newest, 60 * kMiB) == nullptr && errno == ENOMEM);
      void* aligned = nullptr;
      CHECK(posix_memalign(&aligned, 4096, 30 * kMiB) == ENOMEM);
      CHECK(::operator new(30 * kMiB, std::nothrow) == nullptr);
      bool caught = false;
      try {
        Free(::operator new(30 * kMiB));
      } catch (const std::bad_alloc&) {
        caught = true;
      }
      CHECK(caught);
      list.Clear();
    }
    Exercise(1);
  });
}

// Free objects of every class, as many as the calling thread's cache keeps.
void FillCaches() {
  for (int round = 0; round < 20; ++round) {
    for (size_t size = 64; size < 200000; size += size / 8) {
      List list;
      while (list.count * size < 256 << 10) CHECK(list.Add(size));
      list.Clear();
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
  ExpectChildSucceeds([] {
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
  });
}

}  // namespace
