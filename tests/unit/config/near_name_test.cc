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
  return std::min({Slowly(a1, b1) + (a[0] == b[0] ? 0 : 1), Slowly(a1, b) + 1, Slowly(a, b1) + 1});
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

TEST(NearNameTest, EditDistanceOfNames) {
  EXPECT_EQ(EditDistance("MALLOCSTAT", "MALLOCSTATS"), 1u);
  EXPECT_EQ(EditDistance("HEAP_PROFILE_SIGNAL", "HEAPPROFILESIGNAL"), 2u);
  EXPECT_GT(EditDistance("MALLOC_CONF", "MALLOCSTATS"), kNearDistance);
  EXPECT_GT(EditDistance("MALLOC_CHECK_", "MALLOCSTATS"), kNearDistance);
  EXPECT_GT(EditDistance("HEAP_SIZE", "HEAPCHECK"), kNearDistance);
  EXPECT_GT(EditDistance(std::string(kMaxComparedName + 1, 'A'), "A"), kMaxComparedName);
}

}  // namespace
}  // namespace tcmalloc
