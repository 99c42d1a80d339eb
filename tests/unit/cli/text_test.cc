// SPDX-License-Identifier: BSD-3-Clause
// Tests the handling of other programs' text at the places where it enters this program.
#include "image/text.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "image/process.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

TEST(CleanTextTest, KeepsText) {
  for (const char* const text :
       {"", "server", "a name with spaces ", "~!@#$%^&*()_+`{}|\\\"", "\xc3\xa9t\xc3\xa9",
        "\xe2\x82\xac", "\xf0\x9f\x90\x98", "\xed\x9f\xbf\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(CleanText(text), text);
  }
}

TEST(CleanTextTest, ReplacesWhatControlsATerminal) {
  EXPECT_EQ(CleanText("\033]0;title\007\033[31m"), "?]0;title??[31m");
  EXPECT_EQ(CleanText("a\tb\nc\rd\x7f"), "a?b?c?d?");
  EXPECT_EQ(CleanText("\xc2\x9b"
                      "31m"),
            "?31m");  // the control sequence introducer (CSI) as one character
  EXPECT_EQ(CleanText("\xe2\x80\xae"
                      "txt.exe"),
            "?txt.exe");
  EXPECT_EQ(CleanText(std::string("a\0b", 3)), "a?b");
}

TEST(CleanTextTest, ReplacesWhatIsNoText) {
  EXPECT_EQ(CleanText("\xe9t\xe9"), "?t?");  // Latin-1
  EXPECT_EQ(CleanText("\xc0\xaf"), "??");    // a longer form than needed
  EXPECT_EQ(CleanText("\xe0\x9f\xbf"), "???");
  EXPECT_EQ(CleanText("\xed\xa0\x80"), "???");       // half of a pair
  EXPECT_EQ(CleanText("\xf4\x90\x80\x80"), "????");  // too large
  EXPECT_EQ(CleanText("\xff\xfe"), "??");
  EXPECT_EQ(CleanText("a\xe2\x82"), "a??");  // cut
}

class NamedThread : public testing::Test {
 protected:
  NamedThread() { prctl(PR_GET_NAME, before_); }
  ~NamedThread() override { prctl(PR_SET_NAME, before_); }

  char before_[16] = {};
};

TEST_F(NamedThread, HasACleanName) {
  prctl(PR_SET_NAME, "\033[1m a b \xe9");
  EXPECT_EQ(ThreadName(getpid(), getpid()), "?[1m a b ?");
  const auto info = ReadProcessInfo(getpid());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->name, "?[1m a b ?");
  EXPECT_NO_THROW(static_cast<void>(ProcessJson(*info).dump()));
}

TEST(ParseMappingTest, HasACleanName) {
  const auto mapping = ParseMapping("1000-2000 rw-p 00000000 00:00 0   /tmp/a b \033[1m\xff");
  ASSERT_TRUE(mapping.has_value());
  EXPECT_EQ(mapping->name, "/tmp/a b ?[1m?");
}

}  // namespace
}  // namespace cli
