// SPDX-License-Identifier: BSD-3-Clause
// Tests edge cases of the entry points: no bytes, many bytes, alignments, recycled memory, errno.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "base/size_classes.h"
#include "entry/program.h"
#include "entry/tc_names.h"
#include "heap/current_thread.h"

namespace tcmalloc {
namespace {

TEST(EntryPointsTest, ObjectsOfNoBytesAreDistinct) {
  std::set<void*> seen;
  for (int i = 0; i < 100; ++i) {
    for (void* const p : {tc_malloc(0), tc_calloc(0, 8), tc_calloc(8, 0), tc_realloc(nullptr, 0),
                          tc_new(0), tc_memalign(32, 0), tc_valloc(0), tc_pvalloc(0)}) {
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(seen.insert(p).second);
    }
  }
  for (void* const p : seen) tc_free(p);
}

TEST(EntryPointsTest, NullIsFreedByAll) {
  tc_free(nullptr);
  tc_cfree(nullptr);
  tc_free_sized(nullptr, 10);
  tc_free_aligned_sized(nullptr, 64, 10);
  tc_free_aligned_sized(nullptr, 0, 0);
  tc_delete(nullptr);
  tc_delete_sized(nullptr, 10);
  tc_delete_sized_aligned(nullptr, 10, std::align_val_t{64});
  EXPECT_EQ(tc_malloc_size(nullptr), 0u);
}

// Tests every alignment with sizes around the boundaries of classes, of the table and of the page.
TEST(EntryPointsTest, EveryAlignment) {
  for (size_t shift = 0; shift <= 24; ++shift) {
    const size_t alignment = size_t{1} << shift;
    std::vector<void*> held;
    for (const size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{9}, size_t{100}, size_t{1024},
                              size_t{1025}, size_t{8192}, kMaxSmallSize, kMaxSmallSize + 1}) {
      void* const p = tc_memalign(alignment, size);
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % alignment, 0u) << size;
      ASSERT_GE(tc_malloc_size(p), size);
      memset(p, 1, size);
      held.push_back(p);
    }
    for (void* const p : held) tc_free(p);
  }
}

TEST(EntryPointsTest, BadAlignments) {
  errno = 0;
  EXPECT_EQ(tc_aligned_alloc(3, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(tc_aligned_alloc(0, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  void* p = &p;
  for (const size_t alignment :
       {size_t{0}, size_t{1}, size_t{2}, size_t{7}, sizeof(void*) / 2, 3 * sizeof(void*)}) {
    errno = 0;
    EXPECT_EQ(tc_posix_memalign(&p, alignment, 10), EINVAL);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(p, &p);
  }
  // memalign rounds up, as the C library documents.
  void* const q = tc_memalign(24, 10);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(q) % 32, 0u);
  tc_free(q);
}

// calloc zeroes memory that was used before, for small and large objects, released or not.
TEST(EntryPointsTest, CallocClearsRecycledMemory) {
  for (int round = 0; round < 4; ++round) {
    for (const size_t size : {size_t{1}, size_t{24}, size_t{1000}, size_t{30000}, kMaxSmallSize,
                              kMaxSmallSize + 1, size_t{1000000}, size_t{5000000}}) {
      std::vector<unsigned char*> held;
      for (int i = 0; i < 4; ++i) {
        unsigned char* const p = static_cast<unsigned char*>(tc_calloc(1, size));
        ASSERT_NE(p, nullptr);
        ASSERT_TRUE(IsZero(p, size)) << size;
        memset(p, 0xff, tc_malloc_size(p));
        held.push_back(p);
      }
      for (unsigned char* const p : held) tc_free(p);
    }
    if (round % 2 == 1) tc_malloc_trim(0);
  }
}

TEST(EntryPointsTest, ReallocThroughTheSizes) {
  std::vector<size_t> sizes;
  for (size_t size = 1; size < (size_t{4} << 20); size += size / 3 + 1) sizes.push_back(size);
  for (size_t i = sizes.size(); i > 0; --i) sizes.push_back(sizes[i - 1]);
  unsigned char* p = nullptr;
  size_t old_size = 0;
  for (const size_t size : sizes) {
    p = static_cast<unsigned char*>(tc_realloc(p, size));
    ASSERT_NE(p, nullptr);
    ASSERT_GE(tc_malloc_size(p), size);
    for (size_t i = 0; i < std::min(old_size, size); ++i) {
      ASSERT_EQ(p[i], static_cast<unsigned char>(i * 31 + (i >> 8)));
    }
    for (size_t i = 0; i < size; ++i) p[i] = static_cast<unsigned char>(i * 31 + (i >> 8));
    old_size = size;
  }
  EXPECT_EQ(tc_realloc(p, 0), nullptr);
}

// A large object shrinks in place, and grows again in place.
TEST(EntryPointsTest, ReallocOfLargeObjectsInPlace) {
  constexpr size_t kMiB = size_t{1} << 20;
  char* const p = static_cast<char*>(tc_malloc(4 * kMiB));
  memset(p, 0x5a, 4 * kMiB);
  ASSERT_EQ(tc_realloc(p, kMiB), p);
  EXPECT_EQ(tc_malloc_size(p), kMiB);
  ASSERT_EQ(tc_realloc(p, 3 * kMiB), p);
  EXPECT_EQ(tc_malloc_size(p), 3 * kMiB);
  for (size_t i = 0; i < kMiB; ++i) ASSERT_EQ(p[i], 0x5a);
  memset(p, 0x6b, 3 * kMiB);
  // Other objects take the memory after it, so that it cannot grow in place.
  ASSERT_EQ(tc_realloc(p, 2 * kMiB), p);
  std::vector<void*> others;
  for (int i = 0; i < 100; ++i) others.push_back(tc_malloc(kMaxSmallSize + 1));
  char* const moved = static_cast<char*>(tc_realloc(p, 64 * kMiB));
  EXPECT_EQ(tc_malloc_size(moved), 64 * kMiB);
  for (size_t i = 0; i < 2 * kMiB; ++i) ASSERT_EQ(moved[i], 0x6b);
  // A sized free may pass the size of the last realloc.
  ASSERT_EQ(tc_realloc(moved, 5 * kMiB + 1), moved);
  tc_free_sized(moved, 5 * kMiB + 1);
  for (void* const other : others) tc_free(other);
}

// Within its class an object stays where it is.
TEST(EntryPointsTest, ReallocWithinTheClassStays) {
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const size_t size = kSizeClasses.size(static_cast<SizeClass>(i));
    const size_t least = kSizeClasses.size(static_cast<SizeClass>(i - 1)) + 1;
    void* const p = tc_malloc(size);
    ASSERT_EQ(tc_realloc(p, least), p);
    ASSERT_EQ(tc_realloc(p, size), p);
    void* const other = tc_realloc(p, size + 1);
    ASSERT_NE(other, p);
    // A sized free may pass the size of the last realloc.
    tc_free_sized(other, size + 1);
  }
}

// A growing vector frees an object of each size. Other code should get their memory.
TEST(EntryPointsTest, LargeObjectsThatAreOutgrownAreNotKeptForTheThread) {
  size_t outgrown = 0;
  for (size_t i = 1; i + 1 < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    // Uses the class until the thread keeps objects of it.
    for (int use = 0; use < 32; ++use) tc_free(tc_malloc(kSizeClasses.size(c)));
    void* const object = tc_malloc(kSizeClasses.size(c));
    const size_t cached = current_slot.cache->table().CachedObjects(c);
    void* const grown = tc_realloc(object, kSizeClasses.size(c) + 1);
    const bool kept = current_slot.cache->table().CachedObjects(c) != cached;
    ASSERT_EQ(kept, kSizeClasses.size(c) < 16384) << kSizeClasses.size(c);
    outgrown += kept ? 0 : 1;
    // An object that realloc shrank stays in the cache.
    void* const shrunk = tc_realloc(grown, kSizeClasses.size(c));
    ASSERT_NE(shrunk, grown);
    tc_free(shrunk);
  }
  EXPECT_GT(outgrown, 10u);
}

TEST(EntryPointsTest, ErrnoIsUntouchedBySuccess) {
  errno = 4321;
  std::vector<void*> held;
  for (size_t size = 1; size < (size_t{8} << 20); size *= 3) {
    held.push_back(tc_malloc(size));
    held.push_back(tc_calloc(1, size));
    held.push_back(tc_realloc(tc_malloc(size), size * 2));
    held.push_back(tc_memalign(4096, size));
  }
  for (void* const p : held) {
    ASSERT_NE(p, nullptr);
    tc_free(p);
  }
  tc_malloc_trim(0);
  EXPECT_EQ(errno, 4321);
}

TEST(EntryPointsTest, TrimSaysWhetherItGaveAnything) {
  tc_malloc_trim(0);
  void* const p = tc_malloc(10000000);
  memset(p, 1, 10000000);
  EXPECT_EQ(tc_malloc_trim(0), 0);
  tc_free(p);
  const size_t keep = tc_mallinfo2().keepcost;
  // The heap may already have released it because of its release rate.
  EXPECT_EQ(tc_malloc_trim(0), keep > 0 ? 1 : 0);
  EXPECT_EQ(tc_malloc_trim(0), 0);
  EXPECT_EQ(tc_mallinfo2().keepcost, 0u);
}

TEST(EntryPointsTest, Mallopt) {
  EXPECT_EQ(tc_mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
  EXPECT_EQ(tc_mallopt(M_ARENA_MAX, 1), 1);
  EXPECT_EQ(tc_mallopt(12345, 1), 0);
}

TEST(EntryPointsTest, MallinfoAgreesWithItself) {
  void* const p = tc_malloc(1000);
  const struct mallinfo2 info = tc_mallinfo2();
  EXPECT_EQ(info.arena, info.uordblks + info.fordblks);
  EXPECT_GE(info.uordblks, 1000u);
  EXPECT_LE(info.fsmblks + info.keepcost, info.fordblks);
  const struct mallinfo old = tc_mallinfo();
  EXPECT_EQ(static_cast<size_t>(old.uordblks), info.uordblks);
  tc_free(p);
  EXPECT_LT(tc_mallinfo2().uordblks, info.uordblks);
}

}  // namespace
}  // namespace tcmalloc
