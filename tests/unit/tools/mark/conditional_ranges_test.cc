// SPDX-License-Identifier: BSD-3-Clause
#include "tools/mark/conditional_ranges.h"

#include <gtest/gtest.h>

#include <vector>

#include "os/memory/virtual_memory.h"
#include "tools/leak/check_memory.h"

namespace tcmalloc {
namespace {

class ConditionalRangesTest : public testing::Test {
 protected:
  void Add(uintptr_t start, uintptr_t end) {
    ASSERT_TRUE(ranges.Add({start, end, MarkRange::Kind::kPlain, MarkRange::Pages::kAll}));
  }
  // Returns the starts of the ranges that were reached since the last call.
  std::vector<uintptr_t> Reached() {
    std::vector<uintptr_t> starts;
    while (const MarkRange* const range = ranges.TakeReached()) starts.push_back(range->start);
    return starts;
  }
  using Starts = std::vector<uintptr_t>;

  SystemVirtualMemory vm;
  CheckMemory memory{vm};
  ConditionalRanges ranges{memory};
};

TEST_F(ConditionalRangesTest, NoRanges) {
  ASSERT_TRUE(ranges.Prepare());
  for (const uintptr_t word : {uintptr_t{0}, uintptr_t{1}, UINTPTR_MAX}) {
    EXPECT_FALSE(ranges.MayContain(word));
  }
  EXPECT_EQ(Reached(), Starts{});
}

TEST_F(ConditionalRangesTest, EachRangeIsReachedOnce) {
  Add(3000, 4000);
  Add(1000, 1010);
  Add(2000, 2001);
  ASSERT_TRUE(ranges.Prepare());
  ASSERT_TRUE(ranges.Prepare()) << "once more changes nothing";
  EXPECT_FALSE(ranges.MayContain(999));
  EXPECT_TRUE(ranges.MayContain(1000));
  EXPECT_TRUE(ranges.MayContain(1500)) << "a gap, which Reach sees";
  EXPECT_TRUE(ranges.MayContain(3999));
  EXPECT_FALSE(ranges.MayContain(4000));
  for (const uintptr_t word : {1010, 1500, 1999, 2001, 2999}) ranges.Reach(word);
  EXPECT_EQ(Reached(), Starts{});
  ranges.Reach(3999);
  ranges.Reach(1009);
  EXPECT_EQ(Reached(), (Starts{3000, 1000}));
  for (const uintptr_t word : {1000, 2000, 3000, 3500}) ranges.Reach(word);
  EXPECT_EQ(Reached(), Starts{2000});
  EXPECT_FALSE(ranges.lacked_memory());
}

TEST_F(ConditionalRangesTest, Suspended) {
  Add(1000, 2000);
  ASSERT_TRUE(ranges.Prepare());
  ranges.Suspend();
  EXPECT_FALSE(ranges.MayContain(1000));
  ranges.Resume();
  EXPECT_TRUE(ranges.MayContain(1999));
  EXPECT_FALSE(ranges.MayContain(2000));
}

// There are more ranges than the first allocation of the array has room for.
TEST_F(ConditionalRangesTest, ManyRanges) {
  Starts expected;
  for (uintptr_t i = 0; i < 300; ++i) {
    Add(i * 100, i * 100 + 50);
    expected.push_back(i * 100);
  }
  ASSERT_TRUE(ranges.Prepare());
  for (const uintptr_t start : expected) {
    ranges.Reach(start + 50);
    ranges.Reach(start + 49);
  }
  EXPECT_EQ(Reached(), expected);
}

}  // namespace
}  // namespace tcmalloc
