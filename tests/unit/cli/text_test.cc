// SPDX-License-Identifier: BSD-3-Clause
// tests/command/distrust_test.py tests the places where other programs' text enters this program.
#include "image/text.h"

#include <gtest/gtest.h>

#include <string>

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
  EXPECT_EQ(CleanText("\302\23331m"), "?31m");  // the control sequence introducer (CSI)
  EXPECT_EQ(CleanText("\342\200\256txt.exe"), "?txt.exe");
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
  EXPECT_EQ(DumpJson("a\xff"), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace cli
