// SPDX-License-Identifier: BSD-3-Clause
#include "os/resident_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

TEST(ResidentPagesTest, TellsWhatWasTouched) {
  const ResidentPages resident;
  if (!resident.known()) GTEST_SKIP() << "/proc/self/pagemap cannot be read";
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  SeededRandom random(8801);
  for (int round = 0; round < 20; ++round) {
    const size_t pages = random.Between(1, 3000);
    char* const start = static_cast<char*>(
        mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(start, MAP_FAILED);
    madvise(start, pages * page, MADV_NOHUGEPAGE);
    std::vector<bool> touched(pages);
    for (size_t run = random.Below(20); run > 0; --run) {
      const size_t first = random.Below(pages);
      for (size_t i = first; i < std::min(pages, first + random.Between(1, 300)); ++i) {
        start[i * page + random.Below(page)] = 1;
        touched[i] = true;
      }
    }
    // From anywhere to anywhere.
    const uintptr_t from = reinterpret_cast<uintptr_t>(start) + random.Below(page);
    const uintptr_t to = reinterpret_cast<uintptr_t>(start) + pages * page - random.Below(page / 2);
    uintptr_t expected = from;  // up to there all was told that was touched
    const auto expect_untouched = [&](uintptr_t end) {
      while (expected < end) {
        const size_t i = (expected - reinterpret_cast<uintptr_t>(start)) / page;
        ASSERT_FALSE(touched[i]) << i;
        expected = reinterpret_cast<uintptr_t>(start) + (i + 1) * page;
      }
    };
    resident.ForEachTouched(from, to, [&](uintptr_t first, uintptr_t end) {
      ASSERT_LT(first, end);
      ASSERT_GE(first, from);
      ASSERT_LE(end, to);
      expect_untouched(first);
      for (uintptr_t at = first; at < end; at += page) {
        ASSERT_TRUE(touched[(at - reinterpret_cast<uintptr_t>(start)) / page]);
      }
      expected = end;
    });
    expect_untouched(to);
    munmap(start, pages * page);
  }
}

TEST(ResidentPagesTest, NothingIsInNothing) {
  const ResidentPages resident;
  int calls = 0;
  resident.ForEachTouched(4096, 4096, [&](uintptr_t, uintptr_t) { ++calls; });
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace tcmalloc
