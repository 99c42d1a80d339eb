// SPDX-License-Identifier: BSD-3-Clause
// Tests malloc_trim, the functions of tcmalloc/tcmalloc.h that release free memory to the OS, and
// the release rate.
#include <errno.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "entry_points.h"
#include "tcmalloc/malloc_extension.h"
#include "tcmalloc/tcmalloc.h"

namespace {

constexpr size_t kMiB = 1 << 20;
// Unused hugepages are released whole.
constexpr size_t kHugepageBytes = 2 * kMiB;

// Backed free bytes in the page heap.
size_t FreeMapped() { return mallinfo2().keepcost; }

// Whether the kernel has no memory for two hugepages. Allocates nothing.
bool NothingResident(char* begin) {
  unsigned char pages[2 * kHugepageBytes / 4096] = {};
  if (mincore(begin, 2 * kHugepageBytes, pages) != 0) return errno == ENOMEM;  // not even mapped
  return std::none_of(std::begin(pages), std::end(pages), [](unsigned char p) { return p & 1; });
}

class ReleaseTest : public testing::Test {
 protected:
  ReleaseTest() : rate_(tcmalloc_get_memory_release_rate()) {
    // The heap releases nothing by itself.
    tcmalloc_set_memory_release_rate(0);
    malloc_trim(0);
  }
  ~ReleaseTest() override { tcmalloc_set_memory_release_rate(rate_); }

  // Leaves `bytes` of free memory, in several runs. Returns where one of them is.
  static char* LeaveFree(size_t bytes) {
    constexpr size_t kBytes = 8 * kMiB;
    static char* objects[64];
    const size_t count = bytes / kBytes;
    for (size_t i = 0; i < count; ++i) {
      objects[i] = static_cast<char*>(malloc(kBytes));
      memset(objects[i], 1, kBytes);
    }
    for (size_t i = 0; i < count; ++i) free(objects[i]);
    return objects[0];
  }

  const double rate_;
};

TEST_F(ReleaseTest, AllThatIsFreeGoes) {
  for (const bool trim : {false, true}) {
    char* const freed = LeaveFree(64 * kMiB);
    const size_t free_bytes = FreeMapped();
    EXPECT_GE(free_bytes, 64 * kMiB);
    // Also releases the spans that shards keep.
    if (trim) {
      EXPECT_EQ(malloc_trim(0), 1);
    } else {
      EXPECT_GE(tcmalloc_release_free_memory(), free_bytes);
    }
    EXPECT_EQ(FreeMapped(), 0u);
    // Uses whole hugepages inside the object, since the memory beside it may be in use.
    char* const hugepage =
        freed + kHugepageBytes - reinterpret_cast<uintptr_t>(freed) % kHugepageBytes;
    EXPECT_TRUE(NothingResident(hugepage));
    EXPECT_EQ(tcmalloc_release_free_memory(), 0u);
    // malloc_trim also finds free pages in spans of small objects.
    EXPECT_TRUE(!trim || malloc_trim(0) == 0);
  }
}

TEST_F(ReleaseTest, AsMuchAsIsAskedForAndLittleMore) {
  LeaveFree(128 * kMiB);
  size_t free_bytes = FreeMapped();
  EXPECT_EQ(tcmalloc_release_to_system(0), 0u);
  EXPECT_EQ(FreeMapped(), free_bytes);
  for (const size_t bytes :
       {size_t{1}, size_t{8192}, size_t{100'000}, kMiB, 5 * kMiB, 10 * kMiB, 50 * kMiB + 1}) {
    const size_t released = tcmalloc_release_to_system(bytes);
    EXPECT_GE(released, bytes);
    EXPECT_LE(released, bytes + kHugepageBytes);
    EXPECT_EQ(FreeMapped(), free_bytes - released) << bytes;
    free_bytes -= released;
  }
  // The request is larger than the free memory.
  EXPECT_EQ(tcmalloc_release_to_system(SIZE_MAX), free_bytes);
  EXPECT_EQ(tcmalloc_release_to_system(SIZE_MAX), 0u);
}

// Memory that was released is usable again, and zero for calloc.
TEST_F(ReleaseTest, ReleasedMemoryIsUsedAgain) {
  LeaveFree(16 * kMiB);
  EXPECT_GT(tcmalloc_release_free_memory(), 0u);
  for (size_t size : {100u, 10000u, 300000u, 4000000u}) {
    auto* object = static_cast<char*>(calloc(1, size));
    EXPECT_TRUE(object[0] == 0 && memcmp(object, object + 1, size - 1) == 0) << size;
    memset(object, 0xff, size);
    free(object);
  }
}

TEST_F(ReleaseTest, TheRateHasBounds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct {
    double set;
    double expected;
  } const rates[] = {{0.25, 0.25}, {1000.001, 1000}, {5, 5},       {kInfinity, 1000}, {7, 7},
                     {kNan, 0},    {1e-9, 1e-9},     {-1e-300, 0}, {-0.0, 0}};
  for (const auto& [set, expected] : rates) {
    tcmalloc_set_memory_release_rate(set);
    EXPECT_EQ(tcmalloc_get_memory_release_rate(), expected) << set;
    EXPECT_FALSE(std::signbit(tcmalloc_get_memory_release_rate())) << set;
    EXPECT_EQ(tcmalloc::MallocExtension::GetMemoryReleaseRate(), expected);
  }
}

TEST_F(ReleaseTest, ErrnoIsKept) {
  using tcmalloc::MallocExtension;
  LeaveFree(16 * kMiB);
  errno = EDOM;
  EXPECT_GT(MallocExtension::ReleaseMemoryToSystem(kMiB), 0u);
  EXPECT_EQ(malloc_trim(0), 1);
  EXPECT_EQ(MallocExtension::ReleaseFreeMemory(), 0u);
  tcmalloc_set_memory_release_rate(0);
  EXPECT_EQ(errno, EDOM);
}

}  // namespace
