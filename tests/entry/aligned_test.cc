// SPDX-License-Identifier: BSD-3-Clause
//
// memalign, posix_memalign, aligned_alloc, valloc and pvalloc: alignments from 0 to the largest
// power of two, sizes up to SIZE_MAX.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <set>

#include "entry_points.h"

namespace {

using entry::Family;
using entry::Fill;
using entry::Holds;
using entry::IsAligned;
using entry::UsableSize;

constexpr size_t kGiB = size_t{1} << 30;
// 32 bits of address space have room for several objects of this alignment.
constexpr size_t kLargestAlignment = sizeof(void*) == 8 ? kGiB : kGiB / 4;
// No address space has room for this much. Half of the 32-bit address space may be available,
// except for the last page.
constexpr size_t kTooMuch = PTRDIFF_MAX - (sizeof(void*) == 8 ? 65536 : 8190);

class Aligned : public testing::TestWithParam<Family> {
 protected:
  const Family& f() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Names, Aligned, testing::Values(entry::Standard()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

std::vector<size_t> SizesAround(size_t alignment) {
  std::vector<size_t> sizes = {0, 1, 7, 8, 9, 16, 17, 24, 48, 100, 1000, 3000, 8191, 8193, 50000};
  for (size_t size : {alignment / 2, alignment - 1, alignment, alignment + 1, alignment * 3}) {
    if (size <= 1 << 20) sizes.push_back(size);
  }
  return sizes;
}

TEST_P(Aligned, EveryPowerOfTwoTimesManySizes) {
  uint64_t tag = 0;
  for (size_t alignment = 1; alignment <= 1 << 21; alignment *= 2) {
    for (size_t size : SizesAround(alignment)) {
      // Several at a time, because the first object of a page is aligned by chance.
      void* objects[5];
      for (size_t i = 0; i < 5; ++i) {
        if (i % 2 == 0 || alignment < sizeof(void*)) {
          objects[i] = f().memalign(alignment, size);
        } else {
          ASSERT_EQ(f().posix_memalign(&objects[i], alignment, size), 0);
        }
        ASSERT_NE(objects[i], nullptr);
        ASSERT_TRUE(IsAligned(objects[i], alignment))
            << objects[i] << ", alignment " << alignment << ", size " << size;
        ASSERT_GE(UsableSize(objects[i]), size);
        Fill(objects[i], size, tag + i);
      }
      for (size_t i = 0; i < 5; ++i) ASSERT_TRUE(Holds(objects[i], size, tag + i));
      // realloc does not promise the alignment, but it keeps the contents.
      objects[0] = f().realloc(objects[0], size + 100);
      ASSERT_TRUE(Holds(objects[0], size, size, tag));
      for (void* object : objects) f().free(object);
      tag += 5;
    }
  }
}

// The objects are not touched, so they take only address space.
TEST_P(Aligned, HugeAlignments) {
  for (size_t alignment = 1 << 21; alignment <= kLargestAlignment; alignment *= 8) {
    auto* object = static_cast<char*>(f().memalign(alignment, 100));
    ASSERT_NE(object, nullptr) << alignment;
    ASSERT_TRUE(IsAligned(object, alignment));
    memset(object, 1, 100);
    void* second = nullptr;
    ASSERT_EQ(f().posix_memalign(&second, alignment, alignment / 2 + 1), 0) << alignment;
    ASSERT_TRUE(IsAligned(second, alignment));
    memset(second, 2, 100);
    EXPECT_EQ(object[99], 1);
    f().free(object);
    f().free(second);
  }
}

TEST_P(Aligned, OverflowFailsWithEnomem) {
  const size_t sizes[] = {SIZE_MAX,
                          SIZE_MAX - 1,
                          SIZE_MAX - 4096,
                          SIZE_MAX - kGiB,
                          SIZE_MAX / 2,
                          SIZE_MAX / 2 + 1,
                          PTRDIFF_MAX,
                          SIZE_MAX - kGiB / 2,
                          SIZE_MAX - 15,
                          kTooMuch,
                          SIZE_MAX - (1 << 21) + 1};
  for (size_t alignment = sizeof(void*); alignment <= kGiB; alignment *= 2) {
    for (size_t size : sizes) {
      SCOPED_TRACE(testing::Message() << "alignment " << alignment << " size " << size);
      errno = 0;
      ASSERT_EQ(f().memalign(alignment, size), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      void* const untouched = &errno;
      void* result = untouched;
      errno = 0;
      ASSERT_EQ(f().posix_memalign(&result, alignment, size), ENOMEM);
      ASSERT_EQ(errno, ENOMEM);
      ASSERT_EQ(result, untouched);
    }
  }
}

TEST_P(Aligned, AlignmentsThatNoAddressSpaceHas) {
  constexpr size_t kBits = 8 * sizeof(void*);
  for (size_t bit = kBits == 64 ? 50 : kBits - 1; bit < kBits; ++bit) {
    for (size_t size : {size_t{1}, size_t{4096}, size_t{PTRDIFF_MAX}, SIZE_MAX}) {
      const size_t alignment = size_t{1} << bit;
      errno = 0;
      ASSERT_EQ(f().memalign(alignment, size), nullptr) << bit;
      ASSERT_TRUE(errno == ENOMEM || errno == EINVAL) << errno;
      void* result = &result;
      errno = 0;
      const int error = f().posix_memalign(&result, alignment, size);
      ASSERT_TRUE(error == ENOMEM || error == EINVAL) << error;
      ASSERT_EQ(errno, error);
      ASSERT_EQ(result, &result);
    }
  }
}

TEST_P(Aligned, PosixMemalignRefusesBadAlignments) {
  for (size_t alignment : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, sizeof(void*) / 2, size_t{7},
                           size_t{9}, size_t{12}, size_t{24}, size_t{100}, size_t{4095},
                           size_t{4097}, size_t{12288}, kGiB + 8, SIZE_MAX, SIZE_MAX - 7}) {
    for (size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{1} << 20, SIZE_MAX}) {
      void* result = &result;
      errno = 0;
      ASSERT_EQ(f().posix_memalign(&result, alignment, size), EINVAL)
          << "alignment " << alignment << " size " << size;
      ASSERT_EQ(errno, EINVAL);
      ASSERT_EQ(result, &result) << "the argument must be left alone";
    }
  }
}

TEST_P(Aligned, PosixMemalignOfSizeZeroCanBeFreed) {
  for (size_t alignment = sizeof(void*); alignment <= 65536; alignment *= 2) {
    void* first = &first;
    void* second = &second;
    errno = EDOM;
    ASSERT_EQ(f().posix_memalign(&first, alignment, 0), 0);
    ASSERT_EQ(f().posix_memalign(&second, alignment, 0), 0);
    ASSERT_EQ(errno, EDOM) << "success leaves it alone";
    // POSIX allows a null pointer or a unique pointer.
    ASSERT_TRUE(first == nullptr || first != second);
    ASSERT_TRUE(IsAligned(first, alignment));
    f().free(first);
    f().free(second);
  }
}

// memalign's manual requires EINVAL for an alignment that is not a power of two; glibc before 2.38
// uses the next power of two. Both results are accepted, but not a misaligned object.
TEST_P(Aligned, MemalignWithOddAlignments) {
  for (size_t alignment : {0u, 3u, 5u, 12u, 24u, 100u, 1000u, 5000u, 12288u, 100000u}) {
    errno = 0;
    void* object = f().memalign(alignment, 300);
    if (object == nullptr) {
      EXPECT_EQ(errno, EINVAL) << alignment;
      continue;
    }
    size_t power = 1;
    while (power < alignment) power *= 2;
    EXPECT_TRUE(IsAligned(object, power)) << alignment;
    memset(object, 1, 300);
    f().free(object);
  }
  for (size_t alignment : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 2, SIZE_MAX / 2}) {
    errno = 0;
    EXPECT_EQ(f().memalign(alignment, 300), nullptr);
    EXPECT_TRUE(errno == EINVAL || errno == ENOMEM) << errno;
  }
}

TEST_P(Aligned, VallocAlignsToPages) {
  const size_t page = sysconf(_SC_PAGESIZE);
  for (size_t size : {size_t{0}, size_t{1}, size_t{100}, page - 1, page, page + 1, 3 * page + 5,
                      size_t{1} << 20}) {
    void* objects[4] = {f().valloc(size), f().pvalloc(size), f().valloc(size), f().pvalloc(size)};
    for (int i = 0; i < 4; ++i) {
      ASSERT_NE(objects[i], nullptr);
      ASSERT_TRUE(IsAligned(objects[i], page));
      ASSERT_GE(UsableSize(objects[i]), size);
      Fill(objects[i], size, i);
    }
    // pvalloc rounds the size up to whole pages, which all belong to the caller.
    for (int i : {1, 3}) {
      const size_t rounded = (size + page - 1) / page * page;
      ASSERT_GE(UsableSize(objects[i]), rounded);
      Fill(objects[i], rounded, i);
    }
    for (int i : {0, 2}) ASSERT_TRUE(Holds(objects[i], size, i));
    for (void* object : objects) f().free(object);
  }
}

TEST_P(Aligned, VallocAndPvallocCheckTheRounding) {
  for (size_t below : {0, 1, 10, 4094, 4095, 4096, 4097, 8191, 8192, 65535, 65536}) {
    for (size_t end : {SIZE_MAX, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} + 1 + 65536}) {
      if (end - below < kTooMuch) continue;
      SCOPED_TRACE(testing::Message() << std::hex << end - below);
      errno = 0;
      ASSERT_EQ(f().valloc(end - below), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      errno = 0;
      ASSERT_EQ(f().pvalloc(end - below), nullptr);
      ASSERT_EQ(errno, ENOMEM);
    }
  }
}

TEST(AlignedAlloc, AnySizeWithAPowerOfTwo) {
  for (size_t alignment = 1; alignment <= kLargestAlignment; alignment *= 2) {
    for (size_t size : SizesAround(alignment)) {
      if (alignment > 1 << 21 && size > 100) continue;
      void* object = entry::AlignedAlloc(alignment, size);
      ASSERT_NE(object, nullptr) << alignment << " " << size;
      ASSERT_TRUE(IsAligned(object, alignment));
      Fill(object, size, alignment);
      ASSERT_TRUE(Holds(object, size, alignment));
      entry::Standard().free(object);
    }
  }
}

// C23 7.24.3.1: if the alignment is not supported, the function fails and returns null.
TEST(AlignedAlloc, RefusesWhatIsNoPowerOfTwo) {
  for (size_t alignment : {size_t{0}, size_t{3}, size_t{12}, size_t{24}, size_t{100}, size_t{4097},
                           kGiB + 8, SIZE_MAX}) {
    errno = 0;
    EXPECT_EQ(entry::AlignedAlloc(alignment, 128), nullptr) << alignment;
    EXPECT_EQ(errno, EINVAL) << alignment;
  }
}

TEST(AlignedAlloc, OverflowFailsWithEnomem) {
  for (size_t alignment = 1; alignment <= kGiB; alignment *= 2) {
    for (size_t size : {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX - kGiB + 1, size_t{PTRDIFF_MAX},
                        size_t{PTRDIFF_MAX} + 1}) {
      errno = 0;
      ASSERT_EQ(entry::AlignedAlloc(alignment, size), nullptr);
      ASSERT_EQ(errno, ENOMEM);
    }
  }
}

// With objects of one page and an alignment of two pages, an object can easily be placed half
// inside an adjacent one.
TEST(Alignment, AlignedObjectsDoNotOverlap) {
  for (size_t alignment : {64u, 512u, 4096u, 8192u, 16384u, 65536u, 262144u}) {
    for (size_t size : {size_t{1}, alignment / 2, alignment, alignment + 1}) {
      std::vector<void*> objects(40);
      for (size_t i = 0; i < objects.size(); ++i) {
        objects[i] = entry::Standard().memalign(alignment, size);
        ASSERT_TRUE(IsAligned(objects[i], alignment));
        Fill(objects[i], UsableSize(objects[i]), i);
      }
      for (size_t i = 0; i < objects.size(); ++i) {
        ASSERT_TRUE(Holds(objects[i], UsableSize(objects[i]), i)) << alignment << " " << size;
        entry::Standard().free(objects[i]);
      }
    }
  }
}

}  // namespace
