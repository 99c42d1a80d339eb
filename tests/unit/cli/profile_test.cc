// SPDX-License-Identifier: BSD-3-Clause
#include "heap/profile.h"

#include <gtest/gtest.h>

#include <vector>

#include "heap/samples.h"

namespace cli {
namespace {

Sample SampleWith(std::vector<Address> frames, uint64_t number, bool in_use, uint64_t interval) {
  return {.object = in_use ? Address{0x1000} : 0,
          .requested_bytes = 100,
          .interval = interval,
          .weight = 2,
          .number = number,
          .frames = std::move(frames)};
}

TEST(ProfileTest, AddsUpSamplesOfOneCallSite) {
  Samples samples{.interval = 64,
                  .samples = {SampleWith({1, 2}, 1, true, 64), SampleWith({1, 2}, 2, false, 64),
                              SampleWith({1, 3}, 3, true, 64), SampleWith({1, 2}, 4, true, 64)},
                  .peak_number = 3};
  const Profile in_use = MakeProfile(samples, ProfileKind::kInUse);
  ASSERT_EQ(in_use.entries.size(), 2u);
  EXPECT_EQ(in_use.entries[0].samples, 2u);
  EXPECT_EQ(in_use.entries[0].in_use_bytes, 400);
  EXPECT_EQ(in_use.interval, 64u);
  const Profile peak = MakeProfile(samples, ProfileKind::kPeak);
  EXPECT_EQ(peak.entries[0].samples, 2u);
  EXPECT_EQ(peak.entries[0].in_use_objects, 4);
  EXPECT_TRUE(MakeProfile(samples, ProfileKind::kAllocations).entries.empty());
  samples.recording_after = 1;
  const Profile allocated = MakeProfile(samples, ProfileKind::kAllocations);
  EXPECT_EQ(allocated.entries[0].allocated_objects, 4);
  EXPECT_EQ(allocated.entries[0].in_use_objects, 2);
}

}  // namespace
}  // namespace cli
