// SPDX-License-Identifier: BSD-3-Clause
// Tests where realloc moves objects, which cache gets the objects that it frees, and the sizes of
// impossible requests. tests/entry has what the entry points promise.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/size_classes.h"
#include "gperftools/nallocx.h"
#include "malloc/tc_names.h"
#include "process/current_thread.h"
#include "tcmalloc/tcmalloc.h"

namespace tcmalloc {
namespace {

TEST(EntryPointsTest, SizesOfImpossibleRequestsAreZero) {
  EXPECT_EQ(tc_nallocx(PTRDIFF_MAX, 0), 0u);
  EXPECT_EQ(tc_nallocx(8, MALLOCX_LG_ALIGN(63)), 0u);
  EXPECT_EQ(tcmalloc_get_estimated_allocated_size(PTRDIFF_MAX), 0u);
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

}  // namespace
}  // namespace tcmalloc
