// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profile_formats.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "instruments/profiles/profile_fixture.h"
#include "testing/in_child.h"
#include "testing/refuse_call.h"

namespace tcmalloc {

namespace {

constexpr ProfileFormat kFormats[] = {ProfileFormat::kProto, ProfileFormat::kLegacyText,
                                      ProfileFormat::kFolded};

std::string Written(const Profile& profile, ProfileFormat format) {
  Collector collector;
  EXPECT_TRUE(WriteProfile(profile, format, &Collector::Take, &collector));
  return collector.text;
}

// A process that may open no file writes the same profile without libraries.
TEST(WriteProfileTest, WithoutProc) {
  const int result = InChild([] {
    KnownProfile known(ProfileKind::kHeap);
    if (!RefuseCall(SYS_openat, O_RDONLY | O_CLOEXEC, EACCES)) return 77;
    if (open("/proc/self/maps", O_RDONLY | O_CLOEXEC) >= 0) return 2;
    Collector text, folded, proto;
    for (const auto& [format, collector] : {std::pair(ProfileFormat::kLegacyText, &text),
                                            {ProfileFormat::kFolded, &folded},
                                            {ProfileFormat::kProto, &proto}}) {
      if (!WriteProfile(known.profile(), format, &Collector::Take, collector)) return 3;
    }
    if (!text.text.ends_with("\n\nMAPPED_LIBRARIES:\n")) return 4;
    if (!folded.text.ends_with("\n0xabb;0x12344;0x701010 100000\n")) return 5;
    return proto.text.size() > 100 ? 0 : 6;
  });
  if (result == 77) GTEST_SKIP() << "seccomp filters are not available";
  EXPECT_EQ(result, 0);
}

TEST(WriteProfileTest, FailingSinkFails) {
  KnownProfile known(ProfileKind::kHeap);
  for (const ProfileFormat format : kFormats) {
    const std::string whole = Written(known.profile(), format);
    for (const size_t limit : {size_t{0}, whole.size() / 2}) {
      Collector collector;
      collector.limit = limit;
      EXPECT_FALSE(WriteProfile(known.profile(), format, &Collector::Take, &collector));
      EXPECT_EQ(collector.refusals, 1u);
    }
  }
}

TEST(WriteProfileTest, ToAFile) {
  KnownProfile known(ProfileKind::kHeap);
  FILE* const file = tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(WriteProfileToFile(known.profile(), ProfileFormat::kFolded, fileno(file)));
  char text[4096] = "";
  rewind(file);
  EXPECT_GT(fread(text, 1, sizeof(text) - 1, file), 0u);
  fclose(file);
  EXPECT_EQ(text, Written(known.profile(), ProfileFormat::kFolded));
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  for (const ProfileFormat format : kFormats) {
    EXPECT_FALSE(WriteProfileToFile(known.profile(), format, full));
    EXPECT_FALSE(WriteProfileToFile(known.profile(), format, -1));
  }
  close(full);
}

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
