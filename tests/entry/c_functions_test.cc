// SPDX-License-Identifier: BSD-3-Clause
// Tests the promises of C23, POSIX and glibc's manual for malloc, free, calloc, realloc,
// reallocarray and free_sized.
#include <errno.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "entry_points.h"

namespace {

using entry::Fill;
using entry::Holds;
using entry::IsAligned;
using entry::IsAlignedFor;
using entry::SweepSizes;

constexpr size_t kLargestRequest = PTRDIFF_MAX;
constexpr int kUntouched = EDOM;  // A value of errno that no allocation function sets.

// Two numbers whose product overflows.
constexpr size_t kHalf = SIZE_MAX / 2;
constexpr size_t kRoot = size_t{1} << (sizeof(size_t) * 4);
constexpr size_t kPairs[][2] = {{kHalf, 3},     {3, kHalf},           {kRoot, kRoot},
                                {kHalf + 1, 2}, {SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 24 + 1, 24}};

bool IsZero(const void* object, size_t size) {
  const auto* bytes = static_cast<const char*>(object);
  return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

// Every usable byte belongs to the object: the objects are filled to the last of them, and must not
// change each other.
TEST(CFunctions, ObjectsAreAlignedAndOverlapNoNeighbour) {
  struct Object {
    void* address;
    size_t usable;
  };
  std::vector<Object> objects;
  for (const size_t size : SweepSizes(1 << 20)) {
    for (void* const object :
         {malloc(size), calloc(1, size), realloc(nullptr, size), malloc(size)}) {
      ASSERT_NE(object, nullptr) << size;
      ASSERT_TRUE(IsAlignedFor(object, size)) << object << " of size " << size;
      const size_t usable = malloc_usable_size(object);
      ASSERT_GE(usable, size);
      Fill(object, usable, objects.size());
      objects.push_back({object, usable});
    }
    for (size_t i = objects.size() - 4; i < objects.size(); ++i) {
      ASSERT_TRUE(Holds(objects[i].address, objects[i].usable, i)) << "size " << size;
    }
    // One of each size stays to the end.
    for (int i = 0; i < 3; ++i) {
      free(objects.back().address);
      objects.pop_back();
    }
  }
  for (size_t i = 0; i < objects.size(); ++i) free(objects[i].address);
}

TEST(CFunctions, ObjectsOfSizeZeroAreUnique) {
  std::set<void*> objects;
  for (int i = 0; i < 100; ++i) {
    for (void* object : {malloc(0), calloc(0, 8), calloc(8, 0), calloc(0, SIZE_MAX),
                         realloc(nullptr, 0), valloc(0), pvalloc(0)}) {
      ASSERT_NE(object, nullptr);
      ASSERT_TRUE(objects.insert(object).second) << object;
    }
  }
  for (void* object : objects) free(object);
}

TEST(CFunctions, NullIsFreedByAll) {
  errno = kUntouched;
  free(nullptr);
  cfree(nullptr);
  free_sized(nullptr, 0);
  free_sized(nullptr, 100);
  free_aligned_sized(nullptr, 64, 100);
  EXPECT_EQ(errno, kUntouched);
  EXPECT_EQ(malloc_usable_size(nullptr), 0u);
}

TEST(CFunctions, TooLargeRequestsFailWithEnomem) {
  void* (*const functions[])(size_t) = {
      [](size_t n) { return malloc(n); },       [](size_t n) { return calloc(1, n); },
      [](size_t n) { return calloc(n, 1); },    [](size_t n) { return realloc(nullptr, n); },
      [](size_t n) { return memalign(64, n); }, [](size_t n) { return valloc(n); },
      [](size_t n) { return pvalloc(n); }};
  for (size_t i = 0; i < std::size(functions); ++i) {
    for (size_t size : {kLargestRequest, kLargestRequest + 1, kLargestRequest - 4096, SIZE_MAX,
                        SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX - 4096, SIZE_MAX / 2 + 4096}) {
      errno = 0;
      EXPECT_EQ(functions[i](size), nullptr) << i << ": " << size;
      EXPECT_EQ(errno, ENOMEM);
    }
  }
  void* object = malloc(100);
  EXPECT_NE(object, nullptr) << "the allocator must go on working";
  free(object);
}

TEST(CFunctions, ProductsAreChecked) {
  void* object = malloc(1000);
  Fill(object, 1000, 2);
  for (const auto& [n, size] : kPairs) {
    errno = 0;
    EXPECT_EQ(calloc(n, size), nullptr) << n << " * " << size;
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(reallocarray(object, n, size), nullptr) << n << " * " << size;
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(Holds(object, 1000, 2)) << "the old object must stay";
  }
  object = reallocarray(object, 100, 1000);
  ASSERT_GE(malloc_usable_size(object), 100000u);
  EXPECT_TRUE(Holds(object, 1000, 1000, 2));
  free(object);
}

// Fills memory to the last usable byte, frees it, and allocates it again.
TEST(CFunctions, CallocClearsRecycledMemory) {
  size_t sizes = 0;
  size_t recycled = 0;
  for (size_t size = 1; size <= 8 << 20; size += size < 256 ? 1 : size / 7, ++sizes) {
    const size_t count = std::clamp<size_t>((256 << 10) / size, 1, 64);
    std::vector<void*> objects(count);
    std::set<void*> used;
    for (void*& object : objects) {
      object = malloc(size);
      ASSERT_NE(object, nullptr);
      memset(object, 0xA5, malloc_usable_size(object));
      used.insert(object);
    }
    for (void* object : objects) free(object);
    for (size_t i = 0; i < count; ++i) {
      // Calls both forms: one item of `size` bytes, and `size` items of one byte.
      objects[i] = i % 2 == 0 ? calloc(1, size) : calloc(size, 1);
      ASSERT_NE(objects[i], nullptr);
      recycled += used.count(objects[i]);
      ASSERT_TRUE(IsZero(objects[i], size)) << "size " << size;
      memset(objects[i], 0x5A, size);
    }
    for (void* object : objects) free(object);
  }
  EXPECT_GT(recycled, sizes / 2) << "hardly any object was used twice: nothing was tested";
}

// Reallocates from each size of the sweep to sizes next to it in the sweep: every size-class
// boundary is crossed in both directions, by one byte and by more.
TEST(CFunctions, ReallocKeepsContents) {
  const std::vector<size_t> sizes = SweepSizes(2 << 20);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t distance : {1u, 40u}) {
      if (i + distance >= sizes.size()) continue;
      const size_t low = sizes[i];
      const size_t high = sizes[i + distance];
      void* object = malloc(low);
      ASSERT_NE(object, nullptr);
      Fill(object, low, i);
      object = realloc(object, high);
      ASSERT_NE(object, nullptr);
      ASSERT_GE(malloc_usable_size(object), high);
      ASSERT_TRUE(Holds(object, std::min(low, high), low, i)) << low << " -> " << high;
      Fill(object, high, i + 1);
      object = realloc(object, low);
      ASSERT_NE(object, nullptr);
      ASSERT_GE(malloc_usable_size(object), low);
      ASSERT_TRUE(Holds(object, std::min(low, high), high, i + 1)) << high << " -> " << low;
      free(object);
    }
  }
}

TEST(CFunctions, FailedReallocKeepsTheOldObject) {
  for (size_t size : {1u, 100u, 5000u, 300000u, 5u << 20}) {
    void* object = malloc(size);
    ASSERT_NE(object, nullptr);
    const size_t usable = malloc_usable_size(object);
    Fill(object, size, size);
    for (size_t request : {kLargestRequest, kLargestRequest + 1, SIZE_MAX, SIZE_MAX - 8192}) {
      errno = 0;
      ASSERT_EQ(realloc(object, request), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      ASSERT_TRUE(Holds(object, size, size));
      ASSERT_EQ(malloc_usable_size(object), usable);
    }
    free(object);
  }
}

TEST(CFunctions, WhatIsFreedIsNotInUse) {
  // Warms up, so that only the objects themselves change the bytes in use.
  for (int round = 0; round < 2; ++round) {
    const size_t before = mallinfo2().uordblks;
    for (size_t size : {1u, 16u, 1000u, 100000u, 3u << 20}) {
      ASSERT_EQ(realloc(malloc(size), 0), nullptr) << size;
      cfree(malloc(size));
      free_sized(malloc(size), size);
      free_aligned_sized(aligned_alloc(256, size), 256, size);
    }
    const size_t after = mallinfo2().uordblks;
    if (round == 1) {
      EXPECT_EQ(after, before);
    }
  }
}

}  // namespace
