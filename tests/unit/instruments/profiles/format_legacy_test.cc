// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profile_fixture.h"
#include "instruments/profiles/profile_formats.h"

namespace tcmalloc {
namespace {

std::string WrittenText(const Profile& profile) {
  Collector collector;
  ByteSink sink(&Collector::Take, &collector);
  WriteLegacyProfile(profile, &sink);
  EXPECT_TRUE(sink.ok());
  return collector.text;
}

TEST(LegacyFormatTest, SampledHeap) {
  KnownProfile known(ProfileKind::kHeap, 524288);
  constexpr char kExpected[] =
      "heap profile: 3: 100096 [9: 100270] @ heap_v2/524288\n"
      "2: 96 [5: 240] @ 0x701011 0x12345 0xabc\n"
      "1: 100000 [1: 100000] @ 0x701011 0x12345 0xabc\n"
      "0: 0 [3: 30] @ 0x12346 0x12345\n"
      "\nMAPPED_LIBRARIES:\n";
  EXPECT_EQ(WrittenText(known.profile()), kExpected);
  known.profile().kind = ProfileKind::kPeakHeap;
  EXPECT_EQ(WrittenText(known.profile()), kExpected);
}

TEST(LegacyFormatTest, FirstLinesOfOtherKinds) {
  KnownProfile complete(ProfileKind::kHeap, 0);
  EXPECT_TRUE(WrittenText(complete.profile())
                  .starts_with("heap profile: 3: 100096 [9: 100270] @ heapprofile\n2: 96 [5: "));
  KnownProfile allocations(ProfileKind::kAllocations);
  EXPECT_TRUE(WrittenText(allocations.profile())
                  .starts_with("heap profile: 9: 100270 [9: 100270] @ heap_v2/1000\n5: 240 [5: "));
}

TEST(LegacyFormatTest, GrowthKeepsTheOrder) {
  KnownProfile known(ProfileKind::kGrowth, 0);
  EXPECT_EQ(WrittenText(known.profile()),
            "heap profile: 9: 100270 [9: 100270] @ growth\n"
            "5: 240 [5: 240] @ 0x701011 0x12345 0xabc\n"
            "1: 100000 [1: 100000] @ 0x701011 0x12345 0xabc\n"
            "3: 30 [3: 30] @ 0x12346 0x12345\n"
            "\nMAPPED_LIBRARIES:\n");
}

}  // namespace
}  // namespace tcmalloc
