// SPDX-License-Identifier: BSD-3-Clause
// The promises of C23, POSIX and glibc's manual for malloc, free, calloc, realloc and reallocarray,
// under each of their names.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <set>

#include "entry_points.h"

namespace {

using entry::Families;
using entry::Family;
using entry::Fill;
using entry::Holds;
using entry::IsAligned;
using entry::SweepSizes;
using entry::UsableSize;

constexpr size_t kLargestRequest = PTRDIFF_MAX;
constexpr int kUntouched = EDOM;  // A value of errno that no allocation function sets.

class CFunctions : public testing::TestWithParam<Family> {
 protected:
  const Family& f() const { return GetParam(); }
};

// The other names are the same functions (override_test.cc).
INSTANTIATE_TEST_SUITE_P(Names, CFunctions, testing::Values(entry::Standard()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST_P(CFunctions, MallocGivesEveryByteAskedFor) {
  std::vector<void*> objects;
  const std::vector<size_t> sizes = SweepSizes(1 << 20);
  for (size_t i = 0; i < sizes.size(); ++i) {
    void* object = f().malloc(sizes[i]);
    ASSERT_NE(object, nullptr) << sizes[i];
    ASSERT_GE(UsableSize(object), sizes[i]);
    Fill(object, sizes[i], i);
    objects.push_back(object);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_TRUE(Holds(objects[i], sizes[i], i)) << "size " << sizes[i];
    f().free(objects[i]);
  }
}

// Every usable byte belongs to the object: two objects of one size and their neighbours are filled
// to the last usable byte, and must not change each other.
TEST_P(CFunctions, UsableBytesOverlapNoNeighbour) {
  for (size_t size : SweepSizes(300 * 1024)) {
    void* objects[4];
    size_t usable[4];
    for (int i = 0; i < 4; ++i) {
      objects[i] = f().malloc(size);
      ASSERT_NE(objects[i], nullptr);
      usable[i] = UsableSize(objects[i]);
      ASSERT_GE(usable[i], size);
      Fill(objects[i], usable[i], i);
    }
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(Holds(objects[i], usable[i], i)) << "size " << size;
    for (void* object : objects) f().free(object);
  }
}

TEST_P(CFunctions, UsableSizeOfNullIsZero) { EXPECT_EQ(UsableSize(nullptr), 0u); }

TEST_P(CFunctions, MallocAligns) {
  for (size_t size : SweepSizes(1 << 20)) {
    void* several[3];
    for (void*& object : several) {
      object = f().malloc(size);
      ASSERT_NE(object, nullptr);
      ASSERT_TRUE(IsAligned(object, size >= 16 ? 16 : 8)) << object << " of size " << size;
    }
    for (void* object : several) f().free(object);
  }
}

TEST_P(CFunctions, ObjectsOfSizeZeroAreUnique) {
  std::set<void*> seen;
  std::vector<void*> objects;
  for (int i = 0; i < 1000; ++i) {
    for (void* object : {f().malloc(0), f().calloc(0, 8), f().calloc(8, 0), f().calloc(0, SIZE_MAX),
                         f().realloc(nullptr, 0), f().valloc(0), f().pvalloc(0)}) {
      ASSERT_NE(object, nullptr);
      ASSERT_TRUE(seen.insert(object).second) << object;
      objects.push_back(object);
    }
  }
  for (void* object : objects) f().free(object);
}

TEST_P(CFunctions, FreeOfNullDoesNothing) {
  errno = kUntouched;
  f().free(nullptr);
  f().cfree(nullptr);
  EXPECT_EQ(errno, kUntouched);
}

TEST_P(CFunctions, FreeLeavesErrnoAlone) {
  for (size_t size : {1u, 100u, 5000u, 200000u, 300000u, 1u << 20, 40u << 20}) {
    for (bool cfree : {false, true}) {
      auto* object = static_cast<char*>(f().malloc(size));
      ASSERT_NE(object, nullptr);
      object[0] = object[size - 1] = 1;
      errno = kUntouched;
      (cfree ? f().cfree : f().free)(object);
      EXPECT_EQ(errno, kUntouched) << size;
    }
  }
}

// madvise fails on locked pages: errno after free must not show it.
TEST_P(CFunctions, FreeOfLockedPagesLeavesErrnoAlone) {
  constexpr size_t kSize = 32 << 20;
  constexpr size_t kLocked = 16384;
  auto* object = static_cast<char*>(f().malloc(kSize));
  ASSERT_NE(object, nullptr);
  char* page = object + kSize / 2 - reinterpret_cast<uintptr_t>(object) % 65536;
  ASSERT_EQ(mlock(page, kLocked), 0) << "RLIMIT_MEMLOCK must allow " << kLocked << " bytes";
  errno = kUntouched;
  f().free(object);
  EXPECT_EQ(errno, kUntouched);
  malloc_trim(0);
  munlock(page, kLocked);
}

TEST_P(CFunctions, SuccessAndFailureShowInErrno) {
  for (size_t size : {kLargestRequest, kLargestRequest + 1, kLargestRequest - 4096, SIZE_MAX,
                      SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX - 4096, SIZE_MAX / 2 + 4096}) {
    SCOPED_TRACE(testing::Message() << std::hex << "size 0x" << size);
    errno = 0;
    EXPECT_EQ(f().malloc(size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(f().calloc(1, size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(f().calloc(size, 1), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(f().realloc(nullptr, size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(f().memalign(64, size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(f().valloc(size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(f().pvalloc(size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  void* object = f().malloc(100);
  EXPECT_NE(object, nullptr) << "the allocator must go on working";
  f().free(object);
}

TEST_P(CFunctions, CallocChecksTheProduct) {
  const size_t half = SIZE_MAX / 2;
  const size_t root = size_t{1} << (sizeof(size_t) * 4);
  const size_t pairs[][2] = {{half, 3},
                             {3, half},
                             {root, root},
                             {root + 1, root},
                             {half + 1, 2},
                             {2, half + 1},
                             {SIZE_MAX, SIZE_MAX},
                             {SIZE_MAX, 2},
                             {root, half},
                             {half / 4, 1024},
                             {SIZE_MAX / 16 + 1, 16},
                             {SIZE_MAX / 24 + 1, 24}};
  for (const auto& pair : pairs) {
    errno = 0;
    EXPECT_EQ(f().calloc(pair[0], pair[1]), nullptr) << pair[0] << " * " << pair[1];
    EXPECT_EQ(errno, ENOMEM);
  }
}

// Fills memory to the last usable byte, frees it, and allocates it again.
TEST_P(CFunctions, CallocClearsRecycledMemory) {
  std::vector<size_t> sizes;
  for (size_t n = 1; n <= 8 << 20; n += n < 256 ? 1 : n / 7) sizes.push_back(n);
  sizes.push_back(8 << 20);
  size_t recycled = 0;
  for (size_t size : sizes) {
    const size_t count = std::clamp<size_t>((256 << 10) / size, 1, 64);
    std::vector<void*> dirty(count);
    std::set<void*> used;
    for (void*& object : dirty) {
      object = f().malloc(size);
      ASSERT_NE(object, nullptr);
      memset(object, 0xA5, UsableSize(object));
      used.insert(object);
    }
    for (void* object : dirty) f().free(object);
    std::vector<void*> clean(count);
    for (size_t i = 0; i < count; ++i) {
      // Calls both forms: one item of `size` bytes, and `size` items of one byte.
      clean[i] = i % 2 == 0 ? f().calloc(1, size) : f().calloc(size, 1);
      ASSERT_NE(clean[i], nullptr);
      recycled += used.count(clean[i]);
      auto* bytes = static_cast<unsigned char*>(clean[i]);
      ASSERT_EQ(std::find_if(bytes, bytes + size, [](unsigned char b) { return b != 0; }),
                bytes + size)
          << "size " << size;
      memset(clean[i], 0x5A, size);
    }
    for (void* object : clean) f().free(object);
  }
  EXPECT_GT(recycled, sizes.size() / 2) << "hardly any object was used twice: nothing was tested";
}

TEST_P(CFunctions, ReallocOfNullIsMalloc) {
  for (size_t size : SweepSizes(1 << 18)) {
    void* object = f().realloc(nullptr, size);
    ASSERT_NE(object, nullptr);
    ASSERT_TRUE(IsAligned(object, size >= 16 ? 16 : 8));
    Fill(object, size, size);
    ASSERT_TRUE(Holds(object, size, size));
    f().free(object);
  }
}

TEST_P(CFunctions, ReallocToZeroFreesAndReturnsNull) {
  // Warms up, so that only the objects themselves change the bytes in use.
  for (int round = 0; round < 2; ++round) {
    const size_t before = mallinfo2().uordblks;
    for (size_t size : {1u, 16u, 1000u, 100000u, 3u << 20}) {
      void* object = f().malloc(size);
      void* result = f().realloc(object, 0);
      ASSERT_EQ(result, nullptr) << size;
    }
    const size_t after = mallinfo2().uordblks;
    if (round == 1) {
      EXPECT_EQ(after, before) << "realloc(p, 0) must free p";
    }
  }
}

// Reallocates from each size of the sweep to sizes next to it in the sweep: every size-class
// boundary is crossed in both directions, by one byte and by more.
TEST_P(CFunctions, ReallocKeepsContents) {
  const std::vector<size_t> sizes = SweepSizes(2 << 20);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t distance : {1u, 40u}) {
      if (i + distance >= sizes.size()) continue;
      const size_t low = sizes[i];
      const size_t high = sizes[i + distance];
      void* object = f().malloc(low);
      ASSERT_NE(object, nullptr);
      Fill(object, low, i);
      object = f().realloc(object, high);
      ASSERT_NE(object, nullptr);
      ASSERT_GE(UsableSize(object), high);
      ASSERT_TRUE(Holds(object, std::min(low, high), low, i)) << low << " -> " << high;
      Fill(object, high, i + 1);
      object = f().realloc(object, low);
      ASSERT_NE(object, nullptr);
      ASSERT_GE(UsableSize(object), low);
      ASSERT_TRUE(Holds(object, std::min(low, high), high, i + 1)) << high << " -> " << low;
      f().free(object);
    }
  }
}

TEST_P(CFunctions, ReallocGrowsAndShrinksStepByStep) {
  size_t size = 1;
  void* object = f().malloc(size);
  Fill(object, size, 1);
  while (size < 16 << 20) {
    const size_t next = size + size / 3 + 1;
    object = f().realloc(object, next);
    ASSERT_NE(object, nullptr);
    ASSERT_TRUE(Holds(object, size, size, size)) << size << " -> " << next;
    size = next;
    Fill(object, size, size);
  }
  while (size > 8) {
    const size_t next = size - size / 3;
    object = f().realloc(object, next);
    ASSERT_NE(object, nullptr);
    ASSERT_TRUE(Holds(object, next, size, size)) << size << " -> " << next;
    size = next;
    Fill(object, size, size);
  }
  f().free(object);
}

TEST_P(CFunctions, FailedReallocKeepsTheOldObject) {
  for (size_t size : {1u, 100u, 5000u, 300000u, 5u << 20}) {
    void* object = f().malloc(size);
    ASSERT_NE(object, nullptr);
    const size_t usable = UsableSize(object);
    Fill(object, size, size);
    for (size_t request : {kLargestRequest, kLargestRequest + 1, SIZE_MAX, SIZE_MAX - 8192}) {
      errno = 0;
      ASSERT_EQ(f().realloc(object, request), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      ASSERT_TRUE(Holds(object, size, size));
      ASSERT_EQ(UsableSize(object), usable);
    }
    f().free(object);
  }
}

// An object may be freed under another name than the one it was allocated under.
TEST_P(CFunctions, FamiliesShareOneHeap) {
  for (const Family& other : Families()) {
    for (size_t size : {8u, 100u, 9000u, 2u << 20}) {
      void* object = f().malloc(size);
      Fill(object, size, 3);
      object = other.realloc(object, size + 100);
      ASSERT_TRUE(Holds(object, size, size, 3)) << f().name << " to " << other.name;
      other.free(object);
      other.cfree(f().calloc(3, size));
    }
  }
}

TEST(ReallocArray, MultipliesAndKeepsContents) {
  void* object = entry::ReallocArray(nullptr, 10, 100);
  ASSERT_NE(object, nullptr);
  ASSERT_GE(UsableSize(object), 1000u);
  Fill(object, 1000, 1);
  object = entry::ReallocArray(object, 100, 1000);
  ASSERT_NE(object, nullptr);
  ASSERT_GE(UsableSize(object), 100000u);
  EXPECT_TRUE(Holds(object, 1000, 1000, 1));
  entry::Standard().free(object);
}

TEST(ReallocArray, ChecksTheProduct) {
  void* object = entry::Standard().malloc(1000);
  Fill(object, 1000, 2);
  const size_t root = size_t{1} << (sizeof(size_t) * 4);
  const size_t pairs[][2] = {{SIZE_MAX / 2, 3}, {3, SIZE_MAX / 2},       {root, root},
                             {SIZE_MAX, 2},     {SIZE_MAX / 16 + 1, 16}, {SIZE_MAX, SIZE_MAX}};
  for (const auto& pair : pairs) {
    errno = 0;
    EXPECT_EQ(entry::ReallocArray(object, pair[0], pair[1]), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_TRUE(Holds(object, 1000, 2)) << "the old object must stay";
  }
  entry::Standard().free(object);
}

TEST(FreeSized, TakesTheSizeThatWasAskedFor) {
  for (size_t size : SweepSizes(2 << 20)) {
    errno = kUntouched;
    entry::FreeSized(entry::Standard().malloc(size), size);
    entry::FreeSized(entry::Standard().calloc(1, size), size);
    entry::FreeSized(entry::Standard().realloc(entry::Standard().malloc(1), size), size);
    EXPECT_EQ(errno, kUntouched);
  }
  entry::FreeSized(entry::Standard().malloc(0), 0);
  entry::FreeSized(nullptr, 0);
  entry::FreeSized(nullptr, 100);
}

TEST(FreeSized, TakesAlignedObjects) {
  for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
    for (size_t size : {1u, 8u, 24u, 100u, 1000u, 4097u, 70000u, 300000u}) {
      void* object = entry::AlignedAlloc(alignment, size);
      ASSERT_NE(object, nullptr);
      entry::FreeAlignedSized(object, alignment, size);
    }
  }
  entry::FreeAlignedSized(nullptr, 64, 100);
}

TEST(FreeSized, ReturnsTheMemory) {
  for (int round = 0; round < 2; ++round) {
    const size_t before = mallinfo2().uordblks;
    for (size_t size : {1u, 16u, 1000u, 100000u, 3u << 20}) {
      entry::FreeSized(entry::Standard().malloc(size), size);
      entry::FreeAlignedSized(entry::AlignedAlloc(256, size), 256, size);
    }
    const size_t after = mallinfo2().uordblks;
    if (round == 1) {
      EXPECT_EQ(after, before);
    }
  }
}

}  // namespace
