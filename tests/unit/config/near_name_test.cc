// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "config/environment_hints.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// Computes the distance by its definition, without a table.
size_t Slowly(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const std::string a1 = a.substr(1), b1 = b.substr(1);
  size_t least =
      std::min({Slowly(a1, b1) + (a[0] == b[0] ? 0 : 1), Slowly(a1, b) + 1, Slowly(a, b1) + 1});
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
    least = std::min(least, Slowly(a.substr(2), b.substr(2)) + 1);
  }
  return least;
}

TEST(NearNameTest, EditDistanceOfRandomNames) {
  SeededRandom random(2026);
  const auto name = [&random] {
    std::string text;
    for (size_t n = random.Below(7); n > 0; --n) text += "AB_"[random.Below(3)];
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = name(), b = name();
    ASSERT_EQ(EditDistance(a, b), Slowly(a, b)) << a << " " << b;
    ASSERT_EQ(EditDistance(b, a), Slowly(a, b)) << a << " " << b;
  }
}

TEST(NearNameTest, DifferByOneWord) {
  EXPECT_TRUE(DifferByOneWord("HEAP_PROFILE_INTERVAL", "HEAP_PROFILE_TIME_INTERVAL"));
  EXPECT_TRUE(DifferByOneWord("TCMALLOC_HEAP_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"));
  EXPECT_TRUE(DifferByOneWord("TCMALLOC_BACKGROUND_THREAD", "TCMALLOC_BACKGROUND"));
  EXPECT_TRUE(DifferByOneWord("HEAP_LIMIT", "SOFT_HEAP_LIMIT"));
  EXPECT_FALSE(DifferByOneWord("LIMIT", "SOFT_LIMIT")) << "a single word is not enough";
  EXPECT_TRUE(DifferByOneWord("A_A", "A_A_A"));
  EXPECT_FALSE(DifferByOneWord("SOFT_LIMIT", "SOFT_LIMIT"));
  EXPECT_FALSE(DifferByOneWord("SOFT", "SOFTER"));
  EXPECT_FALSE(DifferByOneWord("SOFT", "SOFT_HEAP_LIMIT"));
  EXPECT_FALSE(DifferByOneWord("SOFT_LIMIT", "SOFTHEAP_LIMIT"));
  EXPECT_FALSE(DifferByOneWord("SOFT_LIMIT", "HEAP_SIZE"));
  EXPECT_FALSE(DifferByOneWord("", "SOFT"));
}

TEST(NearNameTest, IsNearName) {
  EXPECT_TRUE(IsNearName("MALLOCSTAT", "MALLOCSTATS"));
  EXPECT_TRUE(IsNearName("MALLOC_STATS", "MALLOCSTATS"));
  EXPECT_TRUE(IsNearName("HEAP_PROFILE_SIGNAL", "HEAPPROFILESIGNAL"));
  EXPECT_FALSE(IsNearName("HEAPCHAK", "HEAPCHECK")) << "two mistakes in a short name";
  EXPECT_FALSE(IsNearName("MALLOC_CONF", "MALLOCSTATS"));
  EXPECT_FALSE(IsNearName("MALLOC_CHECK_", "MALLOCSTATS"));
  EXPECT_FALSE(IsNearName("HEAP_SIZE", "HEAPCHECK"));
  EXPECT_FALSE(IsNearName("HEAP", "HEAPX"));
}

}  // namespace
}  // namespace tcmalloc
