// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <vector>

#include "instruments/guard/guard_pool.h"

namespace tcmalloc {
namespace {

// A page that has an object of 100 bytes at its end, or at its start.
class SlackTest : public ::testing::TestWithParam<size_t> {
 protected:
  SlackTest() : page_(4096) {
    const auto start = reinterpret_cast<uintptr_t>(page_.data());
    place_ = {start + GetParam(), start, page_.size()};
    FillSlack(place_, kSize);
    memset(reinterpret_cast<void*>(place_.object), 0, kSize);
  }

  static constexpr size_t kSize = 100;
  std::vector<char> page_;
  GuardPlace place_;
};

TEST_P(SlackTest, EachOtherByteIsChecked) {
  for (size_t i = 0; i < page_.size(); ++i) {
    const uintptr_t at = place_.pages + i;
    const char before = page_[i];
    page_[i] = static_cast<char>(before + 1);
    const bool in_object = at - place_.object < kSize;
    EXPECT_EQ(FindWrittenSlack(place_, kSize), in_object ? 0 : at) << i;
    page_[i] = before;
  }
}

TEST_P(SlackTest, TheNearestByteIsReported) {
  const size_t first = GetParam();
  if (first + kSize + 5 < page_.size()) {
    page_[first + kSize + 2] = page_[first + kSize + 5] = 0;
    EXPECT_EQ(FindWrittenSlack(place_, kSize), place_.object + kSize + 2);
    page_[first + kSize + 2] = page_[first + kSize + 5] = static_cast<char>(kSlackByte);
  }
  if (first >= 9) {
    page_[first - 3] = page_[first - 9] = 0;
    EXPECT_EQ(FindWrittenSlack(place_, kSize), place_.object - 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, SlackTest, ::testing::Values(0, 2000, 4096 - 112, 4096 - 100));

}  // namespace

}  // namespace tcmalloc
