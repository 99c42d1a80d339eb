// SPDX-License-Identifier: BSD-3-Clause
#include "image/resident.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <sstream>
#include <vector>

#include "formats/marker/pagemap.h"
#include "image/thread_places.h"

namespace cli {
namespace {

using tcmalloc::pagemap::kExclusive;
using tcmalloc::pagemap::kOfFileOrShared;
using tcmalloc::pagemap::kPresent;

// A pagemap with the entries of these pages.
PageSource SourceOf(std::map<uint64_t, uint64_t> entries) {
  return PagesOf([entries](uint64_t first, uint64_t* out, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const auto found = entries.find(first + i);
      out[i] = found == entries.end() ? 0 : found->second;
    }
    return n;
  });
}

MappingUse MappingOf(uint64_t first, uint64_t pages, uint64_t resident) {
  return {.mapping = {.start = first * kPageBytes, .end = (first + pages) * kPageBytes},
          .resident_bytes = resident * kPageBytes};
}

TEST(SmapsTest, ReadsWhatIsKnown) {
  std::istringstream text(
      "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n"
      "Size:               4096 kB\n"
      "Rss:                2060 kB\n"
      "Anonymous:          2056 kB\n"
      "LazyFree:              4 kB\n"
      "AnonHugePages:      2048 kB\n"
      "Private_Hugetlb:       8 kB\n"
      "Shared_Hugetlb:       16 kB\n"
      "VmFlags: rd wr mr mw me ac \n"
      "7f0000400000-7f0000401000 r--s 00002000 fe:00 12 /some/file (deleted)\n"
      "Rss:                   4 kB\n"
      "NewInSomeKernel:     abc\n");
  const std::vector<MappingUse> uses = ParseSmaps(text);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].mapping.start, 0x7f0000000000u);
  EXPECT_EQ(uses[0].mapping.end, 0x7f0000400000u);
  EXPECT_EQ(uses[0].mapping.name, "");
  EXPECT_FALSE(uses[0].mapping.shared);
  EXPECT_EQ(uses[0].resident_bytes, 2060u << 10);
  EXPECT_EQ(uses[0].anonymous_bytes, 2056u << 10);
  EXPECT_EQ(uses[0].lazily_freed_bytes, 4u << 10);
  EXPECT_EQ(uses[0].hugepage_bytes, 2048u << 10);
  EXPECT_EQ(uses[0].hugetlb_bytes, 24u << 10);
  EXPECT_TRUE(uses[0].HasFlag("mw"));
  EXPECT_FALSE(uses[0].HasFlag("wf"));
  EXPECT_FALSE(uses[1].HasFlag("rd"));
  EXPECT_EQ(uses[1].mapping.name, "/some/file (deleted)");
  EXPECT_TRUE(uses[1].mapping.shared);
  EXPECT_EQ(uses[1].resident_bytes, 4u << 10);
}

TEST(ResidentPagesTest, CountsPresentPagesOfTheRange) {
  ResidentPages pages(SourceOf({{100, kPresent | kExclusive},
                                {101, 0},
                                {102, kPresent | kOfFileOrShared},
                                {103, kPresent | kExclusive},
                                {120, kPresent | kExclusive}}),
                      {MappingOf(100, 10, 3), MappingOf(120, 1, 1)});
  EXPECT_EQ(pages.Count(100 * kPageBytes, 4 * kPageBytes), 3 * kPageBytes);
  EXPECT_EQ(pages.Count(101 * kPageBytes, 2 * kPageBytes), 1 * kPageBytes);
  EXPECT_EQ(pages.Count(0, 200 * kPageBytes), 4 * kPageBytes);
  EXPECT_EQ(pages.Count(110 * kPageBytes, 10 * kPageBytes), 0u);
  EXPECT_EQ(pages.Count(500 * kPageBytes, 10 * kPageBytes), 0u);
  EXPECT_THROW(SourceOf({})(0, kLongestPagemap / kPageBytes + 1), RangeTooLong);
}

TEST(ResidentPagesTest, PagesOfZeroesAreNotResident) {
  // Four pages are present, but smaps counts one: the others are the kernel's page of zeroes.
  ResidentPages pages(
      SourceOf({{100, kPresent | kExclusive}, {101, kPresent}, {102, kPresent}, {103, kPresent}}),
      {MappingOf(100, 10, 1)});
  EXPECT_EQ(pages.Count(100 * kPageBytes, 10 * kPageBytes), kPageBytes);
  EXPECT_EQ(pages.Count(101 * kPageBytes, 3 * kPageBytes), 0u);
  // Pages that are shared with a child are resident.
  ResidentPages shared(SourceOf({{100, kPresent}, {101, kPresent}}), {MappingOf(100, 10, 2)});
  EXPECT_EQ(shared.Count(100 * kPageBytes, 10 * kPageBytes), 2 * kPageBytes);
}

Mapping Area(Address start, Address end, bool writable, const char* name = "") {
  return {.start = start, .end = end, .readable = writable, .writable = writable, .name = name};
}

TEST(StacksTest, FindsStacksByPointerNameAndGuard) {
  const std::vector<Mapping> mappings = {
      Area(0x10000, 0x20000, true),                // a stack pointer points into it
      Area(0x30000, 0x31000, false),               // a guard
      Area(0x31000, 0x40000, true),                // a stack of a thread that runs
      Area(0x50000, 0x60000, true),                // other memory
      Area(0x60000, 0x61000, false),               // a guard
      Area(0x61000, 0x62000, true, "/some/file"),  // no stack
      Area(0x70000, 0x80000, true, "[stack]"),
  };
  EXPECT_EQ(StacksAmong(mappings, {{7, 0x10010}}, 3), (std::vector<size_t>{0, 2, 6}));
  EXPECT_EQ(StacksAmong(mappings, {{7, 0x70010}}, 1), (std::vector<size_t>{6}));
}

// More runs than the kernel collects in one step, and than it returns at once.
TEST(ResidentPagesTest, BothSourcesFindEachRunOnce) {
  for (const uint64_t wanted : {511, 512, 700, 4095, 4096, 4097, 10000}) {
    SCOPED_TRACE(wanted);
    const uint64_t bytes = 2 * wanted * kPageBytes;
    auto* const area = static_cast<char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void*>(area), MAP_FAILED);
    madvise(area, bytes, MADV_NOHUGEPAGE);
    for (uint64_t i = 0; i < wanted; ++i) area[2 * i * kPageBytes] = 1;
    const uint64_t first = reinterpret_cast<Address>(area) / kPageBytes;
    for (const PageSource& source : {OpenPages(getpid()), OpenPagemap(getpid())}) {
      const std::vector<PageRun> runs = source(first, first + 2 * wanted);
      ASSERT_EQ(runs.size(), wanted);
      for (uint64_t i = 0; i < wanted; ++i) {
        ASSERT_EQ(runs[i].first, first + 2 * i);
        ASSERT_EQ(runs[i].pages, 1u);
      }
    }
    munmap(area, bytes);
  }
}

}  // namespace
}  // namespace cli
