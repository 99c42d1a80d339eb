// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "config/settings.h"
#include "stats/stats.h"

namespace tcmalloc {
namespace {

template <typename Write>
std::string Written(Write write) {
  char buffer[4096];
  TextWriter out(buffer, sizeof(buffer));
  write(&out);
  EXPECT_FALSE(out.truncated());
  return buffer;
}

TEST(ProcessFactsTest, OfThisProcess) {
  ProcessFacts facts;
  errno = 5;
  const Settings settings;
  CollectProcessFacts(settings, &facts);
  EXPECT_EQ(errno, 5);
  EXPECT_EQ(facts.pid, static_cast<uint64_t>(getpid()));
  EXPECT_GT(facts.seconds, 0);
  EXPECT_GT(facts.resident_bytes, facts.anonymous_bytes);
  EXPECT_GT(facts.anonymous_bytes, 0u);
  char path[4096] = "";
  ASSERT_GT(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
  const std::string expected = std::string(path).substr(0, ProcessFacts::kMaxName - 1);
  EXPECT_EQ(facts.program, expected);
  EXPECT_EQ(facts.settings, settings.given);
  EXPECT_EQ(facts.library, expected) << "here the library is a part of the program";
}

// File names may contain any bytes.
TEST(ProcessFactsTest, JsonIsAscii) {
  ProcessFacts facts;
  strcpy(facts.program, "/a\"b\\c\n\x7f\xc3\xa4");
  const std::string json = Written([&](TextWriter* out) { WriteFactsAsJson(facts, out); });
  EXPECT_NE(json.find(R"("program":"/a\"b\\c\u000a\u007f\u00c3\u00a4",)"), std::string::npos)
      << json;
}

}  // namespace
}  // namespace tcmalloc
