// SPDX-License-Identifier: BSD-3-Clause
#include "page_heap/memory_level.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "testing/random.h"

namespace tcmalloc {
namespace {

// Three bounds on the same memory, each with a margin of 10.
std::array<MemoryBound, 3> InUse(uint64_t in_use, uint64_t more = 0) {
  return {{{100, in_use, more, 10}, {200, in_use, more, 10}, {300, in_use, more, 10}}};
}

TEST(MemoryLevelTest, ALevelIsLeftBelowItsMargin) {
  EXPECT_EQ(NextMemoryLevel(InUse(91), 0), 0);
  EXPECT_EQ(NextMemoryLevel(InUse(91), 1), 1);
  EXPECT_EQ(NextMemoryLevel(InUse(90), 1), 0);
  // The level may fall by one, or by several at once.
  EXPECT_EQ(NextMemoryLevel(InUse(291), 3), 3);
  EXPECT_EQ(NextMemoryLevel(InUse(290), 3), 2);
  EXPECT_EQ(NextMemoryLevel(InUse(95), 3), 1);
  EXPECT_EQ(NextMemoryLevel(InUse(0), 3), 0);
  // The margin of a level that was never entered does not count.
  EXPECT_EQ(NextMemoryLevel(InUse(199), 1), 1);
}

// For random figures, nothing overflows, a level that was entered is kept within its margin, and
// more memory in use never lowers the level.
TEST(MemoryLevelTest, AnyFigures) {
  SeededRandom random(1702);
  const auto figure = [&random]() -> uint64_t {
    if (random.OneIn(3)) return random.OneIn(2) ? UINT64_MAX - random.Below(3) : random.Below(3);
    return random.Next() >> random.Below(64);
  };
  for (int i = 0; i < 200'000; ++i) {
    std::array<MemoryBound, 2> bounds;
    for (MemoryBound& bound : bounds) bound = {figure(), figure(), figure(), figure()};
    for (int level = 0; level <= 2; ++level) {
      int expected = 0;
      for (int i = 1; i <= 2; ++i) {
        const MemoryBound& bound = bounds[static_cast<size_t>(i) - 1];
        if (bound.IsEntered() || (i <= level && bound.IsHeld())) expected = i;
      }
      ASSERT_EQ(NextMemoryLevel(bounds, level), expected);
    }
    for (const MemoryBound& bound : bounds) {
      ASSERT_TRUE(bound.IsHeld() || !bound.IsEntered());
      ASSERT_FALSE(bound.IsHeld() && bound.limit == MemoryBound::kNoLimit);
#ifdef __SIZEOF_INT128__
      const unsigned __int128 sum = static_cast<unsigned __int128>(bound.in_use) + bound.more;
      ASSERT_EQ(bound.IsEntered(), bound.limit != MemoryBound::kNoLimit && sum > bound.limit);
      ASSERT_EQ(bound.IsHeld(),
                bound.limit != MemoryBound::kNoLimit && sum + bound.margin > bound.limit);
#endif
    }
    std::array<MemoryBound, 2> lower = bounds;
    for (MemoryBound& bound : lower) bound.in_use /= 2;
    ASSERT_LE(NextMemoryLevel(lower, 0), NextMemoryLevel(bounds, 0));
  }
}

}  // namespace
}  // namespace tcmalloc
