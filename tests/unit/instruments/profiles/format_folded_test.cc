// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profile_fixture.h"
#include "instruments/profiles/profile_formats.h"

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

}  // namespace
}  // namespace tcmalloc
