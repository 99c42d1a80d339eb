// SPDX-License-Identifier: BSD-3-Clause
// The functions that release free memory to the OS, and the release rate, called as by a program
// that looks them up by name.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "entry_points.h"
#include "tcmalloc/malloc_extension.h"

namespace {

using entry::Standard;

constexpr size_t kMiB = 1 << 20;
// Unused hugepages are released whole.
constexpr size_t kHugepageBytes = 2 * kMiB;

size_t ReleaseFreeMemory() {
  static auto* const function = entry::Require<size_t()>("tcmalloc_release_free_memory");
  return function();
}
size_t ReleaseToSystem(size_t bytes) {
  static auto* const function = entry::Require<size_t(size_t)>("tcmalloc_release_to_system");
  return function(bytes);
}
void SetRate(double rate) {
  static auto* const function = entry::Require<void(double)>("tcmalloc_set_memory_release_rate");
  function(rate);
}
double GetRate() {
  static auto* const function = entry::Require<double()>("tcmalloc_get_memory_release_rate");
  return function();
}

// Resident bytes of the process, which the kernel counts page by page. Allocates nothing.
size_t ResidentBytes() {
  static char text[8192];
  const int fd = open("/proc/self/smaps_rollup", O_RDONLY);
  size_t length = 0;
  for (ssize_t got; (got = read(fd, text + length, sizeof(text) - 1 - length)) > 0;) length += got;
  close(fd);
  text[length] = '\0';
  const char* const line = strstr(text, "\nRss:");
  if (line == nullptr) abort();
  return strtoul(line + 5, nullptr, 10) * 1024;
}

// Backed free bytes in the page heap.
size_t FreeMapped() { return mallinfo2().keepcost; }

class ReleaseTest : public testing::Test {
 protected:
  ReleaseTest() : rate_(GetRate()) {
    // The heap releases nothing by itself.
    SetRate(0);
    malloc_trim(0);
  }
  ~ReleaseTest() override { SetRate(rate_); }

  // Leaves `bytes` of free memory, in several runs.
  static void LeaveFree(size_t bytes) {
    constexpr size_t kBytes = 8 * kMiB;
    static void* objects[64];
    const size_t count = bytes / kBytes;
    for (size_t i = 0; i < count; ++i) {
      objects[i] = Standard().malloc(kBytes);
      memset(objects[i], 1, kBytes);
    }
    for (size_t i = 0; i < count; ++i) Standard().free(objects[i]);
  }

  const double rate_;
};

TEST_F(ReleaseTest, AllThatIsFreeGoes) {
  const size_t before = ResidentBytes();
  LeaveFree(128 * kMiB);
  EXPECT_GE(ResidentBytes(), before + 128 * kMiB);
  const size_t free_bytes = FreeMapped();
  EXPECT_GE(free_bytes, 128 * kMiB);
  // Also releases the spans that shards keep.
  EXPECT_GE(ReleaseFreeMemory(), free_bytes);
  EXPECT_EQ(FreeMapped(), 0u);
  EXPECT_LE(ResidentBytes(), before + kMiB);
  EXPECT_EQ(ReleaseFreeMemory(), 0u);
}

TEST_F(ReleaseTest, AsMuchAsIsAskedForAndLittleMore) {
  LeaveFree(256 * kMiB);
  size_t free_bytes = FreeMapped();
  size_t resident = ResidentBytes();
  EXPECT_EQ(ReleaseToSystem(0), 0u);
  EXPECT_EQ(FreeMapped(), free_bytes);
  for (const size_t bytes :
       {size_t{1}, size_t{8192}, size_t{100'000}, kMiB, 5 * kMiB, 10 * kMiB, 50 * kMiB + 1}) {
    const size_t released = ReleaseToSystem(bytes);
    EXPECT_GE(released, bytes);
    EXPECT_LE(released, bytes + kHugepageBytes);
    EXPECT_EQ(FreeMapped(), free_bytes - released) << bytes;
    const size_t resident_now = ResidentBytes();
    EXPECT_LE(resident_now, resident - released + kMiB) << bytes;
    EXPECT_GE(resident_now + kMiB, resident - released) << bytes;
    free_bytes -= released;
    resident = resident_now;
  }
  // The request is larger than the free memory.
  EXPECT_EQ(ReleaseToSystem(SIZE_MAX), free_bytes);
  EXPECT_EQ(ReleaseToSystem(SIZE_MAX), 0u);
}

// Memory in use keeps its contents, and released memory is usable again.
TEST_F(ReleaseTest, ObjectsStayAsTheyAre) {
  constexpr size_t kCount = 100;
  void* kept[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    kept[i] = Standard().malloc(1000 * (i + 1) * (i % 10 + 1));
    entry::Fill(kept[i], 1000 * (i + 1) * (i % 10 + 1), i);
    void* const between = Standard().malloc(400'000);
    memset(between, 1, 400'000);
    Standard().free(between);
  }
  EXPECT_GT(ReleaseFreeMemory(), 0u);
  LeaveFree(64 * kMiB);
  ReleaseFreeMemory();
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(entry::Holds(kept[i], 1000 * (i + 1) * (i % 10 + 1), i));
    Standard().free(kept[i]);
  }
}

TEST_F(ReleaseTest, TheRateHasBounds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct {
    double set;
    double expected;
  } const rates[] = {{1, 1},           {0.25, 0.25},  {10, 10},     {1000, 1000},
                     {1000.001, 1000}, {1e300, 1000}, {5, 5},       {kInfinity, 1000},
                     {7, 7},           {kNan, 0},     {7, 7},       {-kNan, 0},
                     {7, 7},           {-1e-300, 0},  {7, 7},       {-kInfinity, 0},
                     {7, 7},           {-0.0, 0},     {1e-9, 1e-9}, {0, 0}};
  for (const auto& [set, expected] : rates) {
    SetRate(set);
    EXPECT_EQ(GetRate(), expected) << set;
    EXPECT_FALSE(std::signbit(GetRate())) << set;
  }
}

TEST_F(ReleaseTest, ErrnoIsKept) {
  for (const int number : {0, EDOM}) {
    LeaveFree(16 * kMiB);
    errno = number;
    EXPECT_GT(ReleaseToSystem(kMiB), 0u);
    EXPECT_EQ(errno, number);
    EXPECT_GT(ReleaseFreeMemory(), 0u);
    EXPECT_EQ(errno, number);
    EXPECT_EQ(ReleaseFreeMemory(), 0u);
    EXPECT_EQ(errno, number);
    SetRate(1e300);
    EXPECT_EQ(errno, number);
    GetRate();
    EXPECT_EQ(errno, number);
    SetRate(0);
  }
}

// The C++ class reports the same value.
TEST_F(ReleaseTest, MembersOfMallocExtension) {
  using tcmalloc::MallocExtension;
  LeaveFree(64 * kMiB);
  const size_t released = MallocExtension::ReleaseMemoryToSystem(10 * kMiB);
  EXPECT_GE(released, 10 * kMiB);
  EXPECT_LE(released, 10 * kMiB + kHugepageBytes);
  EXPECT_GE(MallocExtension::ReleaseFreeMemory(), 64 * kMiB - released);
  MallocExtension::SetMemoryReleaseRate(3);
  EXPECT_EQ(MallocExtension::GetMemoryReleaseRate(), 3);
}

}  // namespace
