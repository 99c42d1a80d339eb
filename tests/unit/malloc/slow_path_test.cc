// SPDX-License-Identifier: BSD-3-Clause
// Misuse causes one line that names the pointer, its state and the expected state, then an abort.
// tests/process/misuse misuses pointers in all ways, with objects of all sizes.
#include "malloc/slow_path.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/size_classes.h"
#include "malloc/tc_names.h"
#include "process/heap.h"
#include "process/release.h"
#include "testing/heap_fixture.h"

namespace tcmalloc {
namespace {

TEST(SlowPathDeathTest, WrongSizes) {
  void* const small = tc_malloc(100);
  const std::string size = std::to_string(tc_malloc_size(small));
  const std::string wrong_size = "the object has " + size + " bytes, but the sized free says ";
  EXPECT_MISUSE(tc_free_sized(small, 10), FreeLine(small, wrong_size + "10"));
  EXPECT_MISUSE(tc_delete_sized(small, 1000000), FreeLine(small, wrong_size + "1000000"));
  EXPECT_MISUSE(tc_free_aligned_sized(small, 8, 1000),
                FreeLine(small, wrong_size + "1000 with alignment 8"));
  tc_free(small);
  void* const large = tc_malloc(1000000);
  const std::string wrong_large_size = "the object has " + std::to_string(tc_malloc_size(large)) +
                                       " bytes, but the sized free says ";
  EXPECT_MISUSE(tc_free_sized(large, 100), FreeLine(large, wrong_large_size + "100"));
  EXPECT_MISUSE(tc_free_sized(large, 2000000), FreeLine(large, wrong_large_size + "2000000"));
  tc_free_sized(large, 1000000);
}

// gperftools accepts frees with the size, but without the alignment, of objects that are aligned to
// more than a page. Programs that were written for gperftools make such frees.
TEST(SlowPathTest, SizedFreesMayLeaveOutAlignmentsOfMoreThanAPage) {
  for (size_t alignment = 2 * kPageSize; alignment <= size_t{1} << 22; alignment *= 2) {
    for (const size_t size : {size_t{1}, size_t{100}, kPageSize, size_t{20000}, size_t{32768},
                              kMaxSmallSize, kMaxSmallSize + 1, size_t{1000000}}) {
      const size_t before = tc_mallinfo2().uordblks;
      tc_free_sized(tc_memalign(alignment, size), size);
      tc_delete_sized(tc_memalign(alignment, size), size);
      EXPECT_EQ(tc_mallinfo2().uordblks, before) << size << " at " << alignment;
    }
  }
}

TEST(SlowPathDeathTest, SizedFreesThatLeaveOutTheAlignment) {
  // Other sizes are wrong with every alignment.
  char* const pages = static_cast<char*>(tc_memalign(2 * kPageSize, 4 * kPageSize));
  const std::string four_pages =
      "the object has " + std::to_string(4 * kPageSize) + " bytes, but the sized free says ";
  EXPECT_MISUSE(tc_free_sized(pages, kPageSize), FreeLine(pages, four_pages + "8192"));
  EXPECT_MISUSE(tc_free_sized(pages, 5 * kPageSize), FreeLine(pages, four_pages + "40960"));
  tc_free(pages);
  // The smallest object whose class the alignment changes, and that is not aligned to pages.
  size_t size = 1;
  while (kSizeClasses.ClassOf(size) == kSizeClasses.ClassOf(size, 256) || size <= 256) ++size;
  std::vector<void*> held;
  do {
    held.push_back(tc_memalign(256, size));
  } while (reinterpret_cast<uintptr_t>(held.back()) % kPageSize == 0);
  const std::string bytes = std::to_string(tc_malloc_size(held.back()));
  EXPECT_MISUSE(
      tc_free_sized(held.back(), size),
      FreeLine(held.back(), "the object has " + bytes + " bytes, but the sized free says " +
                                std::to_string(size) + " without the alignment of the allocation"));
  for (void* const p : held) tc_free_aligned_sized(p, 256, size);
}

// Writes into freed objects of all classes, before and after their pages were released to the OS.
void WriteIntoFreedObjects() {
  std::vector<std::pair<unsigned char*, size_t>> freed;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const size_t size = kSizeClasses.size(static_cast<SizeClass>(i));
      for (int j = 0; j < 20; ++j) {
        freed.emplace_back(static_cast<unsigned char*>(tc_malloc(size)), size);
      }
    }
    for (const auto& [p, size] : freed) tc_free(p);
    for (const auto& [p, size] : freed) memset(p, 0xbb, size);
    GlobalHeap().CheckInvariants();
    if (round == 1) Trim(GlobalHeap(), 0);
    for (const auto& [p, size] : freed) memset(p, 0x11 * round, size);
    GlobalHeap().CheckInvariants();
    freed.clear();
  }
}

// Such writes have no effect, because the allocator stores nothing in free objects. They happen in
// a child process, because calloc may rely on released pages being zero.
TEST(SlowPathDeathTest, WritesIntoFreedObjectsDoNoHarm) {
  EXPECT_EXIT(
      {
        WriteIntoFreedObjects();
        _exit(0);
      },
      testing::ExitedWithCode(0), testing::Eq(""));
}

}  // namespace
}  // namespace tcmalloc
