// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profile/profile_fixture.h"
#include "tools/profile/profile_formats.h"

namespace tcmalloc {
namespace {

std::string WrittenFolded(const Profile& profile, std::string_view maps) {
  SystemVirtualMemory vm;
  MappedLibraries libraries(vm);
  EXPECT_TRUE(libraries.Parse(maps, &ReadFakeImage));
  Collector collector;
  ByteSink sink(&Collector::Take, &collector);
  WriteFoldedProfile(profile, libraries, &sink);
  EXPECT_TRUE(sink.ok());
  return collector.text;
}

TEST(FoldedFormatTest, OutermostFrameFirstWithFileOffsets) {
  KnownProfile known(ProfileKind::kHeap);
  // The second stack has no live objects.
  EXPECT_EQ(WrittenFolded(known.profile(), kMaps),
            "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 2040\n"
            "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 100000\n");
}

TEST(FoldedFormatTest, AllocationsShowAllocatedBytes) {
  for (const ProfileKind kind : {ProfileKind::kAllocations, ProfileKind::kGrowth}) {
    KnownProfile known(kind);
    EXPECT_EQ(WrittenFolded(known.profile(), kMaps),
              "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 4800\n"
              "0xabb;/bin/the program+0x2344;/lib/a_b.so+0x2010 100000\n"
              "/bin/the program+0x2344;/bin/the program+0x2345 3000\n");
  }
}

TEST(FoldedFormatTest, AddressesWithoutLibraries) {
  KnownProfile known(ProfileKind::kPeakHeap);
  EXPECT_EQ(WrittenFolded(known.profile(), ""),
            "0xabb;0x12344;0x701010 2040\n"
            "0xabb;0x12344;0x701010 100000\n");
}

// An entry without a stack has no line: tools cannot read a line without a frame.
TEST(FoldedFormatTest, NoLineWithoutAFrame) {
  KnownProfile known(ProfileKind::kHeap);
  ProfileEntry entry = known.profile().entries[0];
  entry.depth = 0;
  known.profile().entries = &entry;
  known.profile().num_entries = 1;
  EXPECT_EQ(WrittenFolded(known.profile(), kMaps), "");
}

}  // namespace
}  // namespace tcmalloc
