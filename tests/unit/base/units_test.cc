// SPDX-License-Identifier: BSD-3-Clause
#include "base/units.h"

#include <gtest/gtest.h>

namespace tcmalloc {
namespace {

TEST(LengthTest, RoundsBytesUpToPages) {
  EXPECT_EQ(Length::ForBytes(0), Length(0));
  EXPECT_EQ(Length::ForBytes(1), Length(1));
  EXPECT_EQ(Length::ForBytes(kPageSize), Length(1));
  EXPECT_EQ(Length::ForBytes(kPageSize + 1), Length(2));
}

TEST(PageIdTest, DistanceOfPagesIsALength) {
  EXPECT_EQ(PageId(12) - PageId(5), Length(7));
  EXPECT_EQ(PageId(5) + Length(7), PageId(12));
  EXPECT_EQ(PageId(12) - Length(7), PageId(5));
}

TEST(PageIdTest, ContainsAllBytesOfItsPage) {
  const uintptr_t start = uintptr_t{7} * kPageSize;
  EXPECT_EQ(PageId::Containing(reinterpret_cast<void*>(start)), PageId(7));
  EXPECT_EQ(PageId::Containing(reinterpret_cast<void*>(start + kPageSize - 1)), PageId(7));
  EXPECT_EQ(PageId::Containing(reinterpret_cast<void*>(start + kPageSize)), PageId(8));
}

}  // namespace
}  // namespace tcmalloc
