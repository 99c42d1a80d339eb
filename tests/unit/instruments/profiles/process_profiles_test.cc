// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/process_profiles.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace tcmalloc {
namespace {

TEST(ProfileRequestTest, PathAndOptions) {
  using Format = ProfileFormat;
  const struct {
    const char* text;
    const char* base;
    const char* extension;
    Format format;
    bool at_exit, peak;
    int signal;
    int64_t interval_ms;
  } kRows[] = {
      {"/tmp/a", "/tmp/a", ".heap", Format::kLegacyText, true, false, 0, 0},
      {"a,at=exit,signal=SIGUSR2,every=2m,peak", "a", ".heap", Format::kLegacyText, true, true,
       SIGUSR2, 120'000},
      // If the text has options, only they count: the profile at exit is no default then.
      {"x/a.pb,peak", "x/a", ".pb", Format::kProto, false, true, 0, 0},
      {"x/a.pb.gz,peak", "x/a", ".pb", Format::kProto, false, true, 0, 0},
      {"a.folded", "a", ".folded", Format::kFolded, true, false, 0, 0},
      {"a.heap", "a", ".heap", Format::kLegacyText, true, false, 0, 0},
      {"a.txt", "a.txt", ".heap", Format::kLegacyText, true, false, 0, 0},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.text);
    ProfileRequest request;
    std::string_view wrong;
    EXPECT_TRUE(ParseProfileRequest(row.text, &request, &wrong)) << wrong;
    EXPECT_EQ(request.base, row.base);
    EXPECT_EQ(request.extension, row.extension);
    EXPECT_EQ(request.format, row.format);
    EXPECT_EQ(request.at_exit, row.at_exit);
    EXPECT_EQ(request.peak, row.peak);
    EXPECT_EQ(request.signal, row.signal);
    EXPECT_EQ(request.interval_ms, row.interval_ms);
  }
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
