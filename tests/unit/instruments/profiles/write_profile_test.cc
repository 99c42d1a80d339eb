// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "instruments/profiles/profile_fixture.h"
#include "instruments/profiles/profile_formats.h"
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

}  // namespace
}  // namespace tcmalloc
