// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profiler/profile_request.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

namespace tcmalloc {
namespace {

ProfileRequest Parsed(std::string_view text) {
  ProfileRequest request;
  std::string_view wrong;
  EXPECT_TRUE(ParseProfileRequest(text, &request, &wrong)) << text << ": " << wrong;
  return request;
}

TEST(ProfileRequestTest, PathOnly) {
  const ProfileRequest request = Parsed("/tmp/a");
  EXPECT_EQ(request.base, "/tmp/a");
  EXPECT_EQ(request.extension, ".heap");
  EXPECT_EQ(request.format, ProfileFormat::kLegacyText);
  EXPECT_TRUE(request.at_exit);
  EXPECT_FALSE(request.peak);
  EXPECT_EQ(request.signal, 0);
  EXPECT_EQ(request.interval_ms, 0);
}

TEST(ProfileRequestTest, Options) {
  const ProfileRequest all = Parsed("a,at=exit,signal=SIGUSR2,every=2m,peak");
  EXPECT_TRUE(all.at_exit && all.peak);
  EXPECT_EQ(all.signal, SIGUSR2);
  EXPECT_EQ(all.interval_ms, 120'000);
  const ProfileRequest one = Parsed("a,peak");
  EXPECT_TRUE(one.peak);
  EXPECT_FALSE(one.at_exit) << "where there are options, only what they say";
}

TEST(ProfileRequestTest, Formats) {
  for (const char* const text : {"x/a.pb,peak", "x/a.pb.gz,peak"}) {
    EXPECT_EQ(Parsed(text).format, ProfileFormat::kProto);
    EXPECT_EQ(Parsed(text).base, "x/a");
    EXPECT_EQ(Parsed(text).extension, ".pb");
  }
  EXPECT_EQ(Parsed("a.folded").format, ProfileFormat::kFolded);
  EXPECT_EQ(Parsed("a.heap").base, "a");
  EXPECT_EQ(Parsed("a.txt").base, "a.txt");
  EXPECT_EQ(Parsed("a.txt").extension, ".heap");
}

TEST(ProfileRequestTest, SyntaxErrors) {
  struct Case {
    const char* text;
    const char* wrong;
  };
  for (const Case& c : {Case{"", ""}, Case{",peak", ",peak"}, Case{"a,", ""}, Case{"a,,peak", ""},
                        Case{"a,peak,", ""}, Case{"a,peaks", "peaks"}, Case{"a,peak=1", "peak=1"},
                        Case{"a,at=start", "at=start"}, Case{"a,at=exit,signal=", "signal="},
                        Case{"a,signal=KILL,peak", "signal=KILL"}, Case{"a,every=", "every="},
                        Case{"a,every=0s", "every=0s"}, Case{"a, peak", " peak"}}) {
    ProfileRequest request;
    std::string_view wrong;
    EXPECT_FALSE(ParseProfileRequest(c.text, &request, &wrong)) << c.text;
    EXPECT_EQ(wrong, c.wrong) << c.text;
  }
}

}  // namespace
}  // namespace tcmalloc
