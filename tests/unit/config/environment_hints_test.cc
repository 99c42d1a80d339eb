// SPDX-License-Identifier: BSD-3-Clause
#include "config/environment_hints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "config/setting.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

std::string HintAbout(std::string_view name, std::string_view value) {
  char buffer[512];
  TextWriter hint(buffer, sizeof(buffer));
  WriteHint(
      name, value, [](std::string_view other) { return FindSetting(other) != nullptr; }, &hint);
  return std::string(hint.text());
}

TEST(EnvironmentHintsTest, VariablesOfOtherAllocators) {
  EXPECT_EQ(HintAbout("MALLOC_CONF", "narenas:1"),
            "MALLOC_CONF is for jemalloc and has no effect here: see "
            "docs/migrating-from-jemalloc.md");
  EXPECT_EQ(HintAbout("MIMALLOC_VERBOSE", "1"),
            "MIMALLOC_VERBOSE is for mimalloc and has no effect here: see "
            "docs/migrating-from-mimalloc.md");
  EXPECT_EQ(HintAbout("MALLOC_ARENA_MAX", "2"),
            "MALLOC_ARENA_MAX is for glibc's malloc and has no effect here: see "
            "docs/migrating-from-glibc.md");
  EXPECT_EQ(HintAbout("GLIBC_TUNABLES", "glibc.rtld.x=1:glibc.malloc.arena_max=1"),
            "GLIBC_TUNABLES: glibc.malloc.* has no effect here: see docs/migrating-from-glibc.md");
  EXPECT_EQ(HintAbout("GLIBC_TUNABLES", "glibc.rtld.x=1"), "");
  EXPECT_EQ(HintAbout("CPUPROFILE", "/tmp/a"),
            "CPUPROFILE has no effect here: see docs/settings.md");
}

TEST(EnvironmentHintsTest, OtherNamesOfSettings) {
  for (const std::string_view name : {"HARD_LIMIT", "MEMORY_LIMIT", "TCMALLOC_MEMORY_LIMIT"}) {
    EXPECT_EQ(HintAbout(name, "1G"), std::string(name) +
                                         " is not a setting of the allocator: "
                                         "TCMALLOC_HEAP_LIMIT_MB is");
    EXPECT_EQ(SettingCalled(name), "TCMALLOC_HEAP_LIMIT_MB");
  }
  EXPECT_EQ(HintAbout("RELEASE_RATE", "2"),
            "RELEASE_RATE is not a setting of the allocator: TCMALLOC_RELEASE_RATE is");
  for (const std::string_view name : {"SAMPLING", "SAMPLE_INTERVAL"}) {
    EXPECT_NE(FindSetting(SettingCalled(name)), nullptr) << name;
  }
  EXPECT_EQ(SettingCalled("TCMALLOC_"), "");
}

TEST(EnvironmentHintsTest, SizesWithoutAUnit) {
  EXPECT_EQ(HintAbout("TCMALLOC_SOFT_LIMIT", "512"),
            "TCMALLOC_SOFT_LIMIT=512 is 512 bytes: 512M would be 512 MiB");
  EXPECT_EQ(HintAbout("TCMALLOC_RETENTION", "1"),
            "TCMALLOC_RETENTION=1 is 1 byte: 1M would be 1 MiB");
  for (const char* value : {"0", "65536", "512M", "80%", "", "99999999999999999999999", "-1"}) {
    EXPECT_EQ(HintAbout("TCMALLOC_SOFT_LIMIT", value), "") << value;
  }
  EXPECT_EQ(HintAbout("TCMALLOC_SAMPLE_PARAMETER", "512"), "");
}

TEST(EnvironmentHintsTest, OtherVariablesNeedNone) {
  for (const char* name : {"PATH", "HOME", "", "MALLOC_IS", "TCMALLOC", "MALLOCSTATS"}) {
    EXPECT_EQ(HintAbout(name, "1"), "") << name;
  }
  EXPECT_EQ(HintAbout(std::string(5000, 'A'), "1"), "");
}

// Names of variables may have any bytes and length.
TEST(EnvironmentHintsTest, NamesAreShortenedAndPrintable) {
  EXPECT_EQ(HintAbout("MIMALLOC_\x1b[2J\n", "1"),
            "MIMALLOC_?[2J? is for mimalloc and has no effect here: see "
            "docs/migrating-from-mimalloc.md");
  EXPECT_LT(HintAbout("MIMALLOC_" + std::string(5000, 'A'), "1").size(), 250u);
}

// Computes the distance by its definition, without a table.
size_t Slowly(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const std::string a1 = a.substr(1), b1 = b.substr(1);
  return std::min({Slowly(a1, b1) + (a[0] == b[0] ? 0 : 1), Slowly(a1, b) + 1, Slowly(a, b1) + 1});
}

TEST(NearNameTest, EditDistanceOfRandomNames) {
  SeededRandom random(2026);
  const auto name = [&random] {
    std::string text;
    for (size_t n = random.Below(7); n > 0; --n) text += "AB_"[random.Below(3)];
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string a = name(), b = name();
    ASSERT_EQ(EditDistance(a, b), Slowly(a, b)) << a << " " << b;
    ASSERT_EQ(EditDistance(b, a), Slowly(a, b)) << a << " " << b;
  }
  EXPECT_GT(EditDistance(std::string(kMaxComparedName + 1, 'A'), "A"), kMaxComparedName);
}

}  // namespace
}  // namespace tcmalloc
