// SPDX-License-Identifier: BSD-3-Clause
// Tests reports of made-up profiles.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/leak_report.h"
#include "report/page.h"
#include "report/profile_formats.h"
#include "report/profile_report.h"
#include "report/setting_text.h"

namespace cli {
namespace {

// The names of the functions at the addresses before the return addresses 10, 20 and 30.
const std::vector<SourceFrame>& NamesAt(Address address) {
  static const std::vector<SourceFrame> kInner = {
      {.function = "xmalloc", .file = "/src/x.c", .line = 7, .inlined = true},
      {.function = "Load<int>", .linkage_name = "_Z4LoadIiE", .file = "/src/load.cc", .line = 40}};
  static const std::vector<SourceFrame> kMiddle = {{.function = "a;b\nc</script>&\"\x01\xff"}};
  static const std::vector<SourceFrame> kOuter = {{.function = "main"}};
  return address == 9 ? kInner : address == 19 ? kMiddle : kOuter;
}

ProfileEntry EntryOf(const std::vector<Address>& frames, uint64_t object_bytes, uint64_t samples,
                     double objects) {
  const double bytes = objects * static_cast<double>(object_bytes);
  return {frames, object_bytes, samples, objects, bytes, objects, bytes};
}

Profile MadeUp() {
  return {.interval = 1000,
          .entries = {EntryOf({10, 20, 30}, 100, 2, 20), EntryOf({10, 20, 30}, 50, 1, 10),
                      EntryOf({10, 30}, 4000, 1, 1)}};
}

std::vector<CallSite> Sites() { return CallSitesOf(MadeUp(), &NamesAt); }

TEST(ReportTest, FoldedStacksHaveALineEach) {
  EXPECT_EQ(FoldedOf(Sites()),
            "main;Load<int>;xmalloc 4000\n"
            "main;a_b_c</script>&\"\x01\xff;Load<int>;xmalloc 2500\n");
}

// Two stacks that differ in the address within one line of main.
std::vector<CallSite> Twins() {
  Profile profile = MadeUp();
  profile.entries = {profile.entries[2], profile.entries[2], profile.entries[0]};
  profile.entries[1].frames = {10, 31};
  return CallSitesOf(profile, &NamesAt);
}

size_t CountIn(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(ReportTest, SaysThatSamplesLackObjectsUnlessThatCanBeChance) {
  constexpr uint64_t kInterval = 512 << 10;
  const auto text = [](size_t samples, uint64_t held_intervals) {
    Samples all = {.interval = kInterval};
    all.samples.assign(samples, {.object = 1, .allocated_bytes = 512, .weight = 1024});
    return ShortfallText(all, held_intervals * kInterval);
  };
  EXPECT_NE(text(90, 180).find(" about 45.0 MiB of the 90.0 MiB that "), std::string::npos);
  // 10 samples are expected, or 100, or 10,000.
  for (const auto& [least, held] : {std::pair{0, 10}, {59, 100}, {9000, 10'000}}) {
    EXPECT_NE(text(least, held + 1), "") << least;
    EXPECT_EQ(text(least + 1, held), "") << least + 1;
  }
}

TEST(ReportTest, ValuesOfSettingsHaveUnits) {
  EXPECT_EQ(SettingText("TCMALLOC_SOFT_LIMIT", "90% (0)"), "90%, off: no limit was found");
  EXPECT_EQ(SettingText("TCMALLOC_SOFT_LIMIT", "90% (283115520)"), "90% (270.0 MiB)");
  EXPECT_EQ(SettingText("TCMALLOC_HEAP_LIMIT_MB", "2048"), "2.0 GiB");
  EXPECT_EQ(SettingText("TCMALLOC_RETENTION", "1048577"), "1.0 MiB (1048577 bytes)");
  EXPECT_EQ(SettingText("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "-1 (512)"), "-1 (512 B)");
  EXPECT_EQ(SettingText("TCMALLOC_RELEASE_RATE", "0.5"), "0.5");
}

TEST(ReportTest, SaysWhatALimitMeansForTheProcess) {
  EXPECT_EQ(LimitRemark(2001, 10, 2000),
            "above the control group's limit of 2.0 KiB: it has no effect there");
  EXPECT_EQ(LimitRemark(2000, 2048, 2000), "the program already holds 2.0 KiB");
  EXPECT_EQ(LimitRemark(2000, 2000, 2000), "");
  EXPECT_EQ(LimitRemark(0, 10, 2000), "");
}

TEST(ReportTest, StacksThatLookTheSameAreOneRow) {
  ASSERT_EQ(Twins().size(), 3u);
  EXPECT_EQ(FoldedOf(Twins()),
            "main;Load<int>;xmalloc 8000\n"
            "main;a_b_c</script>&\"\x01\xff;Load<int>;xmalloc 2000\n");
  const std::string table = CallSitesText(Twins(), 10);
  EXPECT_EQ(CountIn(table, " objects "), 2u) << table;
  EXPECT_EQ(table.find("      7.8 KiB   80.0%           2 objects  Load<int> (load.cc:40)\n"), 0u)
      << table;
  EXPECT_NE(CallSitesText(Twins(), 1).find("and 1 more call sites"), std::string::npos);
  // Without callers, all are one row.
  EXPECT_EQ(CountIn(CallSitesText(Twins(), 10, 0), " objects "), 1u);
}

TEST(ReportTest, LeaksThatLookTheSameAreOneRow) {
  const std::vector<LeakGroup> groups = {
      {.frames = {10, 20}, .objects = 5, .bytes = 50, .example = 0x5000},
      {.frames = {10, 30}, .objects = 4, .bytes = 40, .example = 0x4000},
      {.frames = {10, 31},
       .objects = 2,
       .bytes = 20,
       .direct_objects = 1,
       .direct_bytes = 10,
       .example = 0x2000},
      {.object_bytes = 8, .objects = 1, .bytes = 8},
      {.object_bytes = 7, .objects = 1, .bytes = 7}};
  const std::string text = LeakGroupsText(groups, 10, &NamesAt);
  EXPECT_EQ(CountIn(text, "one of them is at"), 4u) << text;
  EXPECT_EQ(text.find("60 bytes in 6 objects, directly leaked: 10 bytes in 1 object, allocated"),
            2u)
      << text;
  EXPECT_NE(text.find("    main\n    one of them is at 0x2000\n"), std::string::npos) << text;
}

TEST(ReportTest, NothingEndsThePagesScript) {
  const std::vector<CallSite> sites = Sites();
  const std::string html =
      HtmlOf({.title = "</script>", .sites = &sites, .timeline = {{1, 2, 3, 4}}});
  EXPECT_EQ(CountIn(html, "</script>"), 2u);
  EXPECT_NE(html.find("\"timeline\":[[1,2,3,4]]"), std::string::npos);
  EXPECT_EQ(html.find("/*DATA*/"), std::string::npos);
}

}  // namespace
}  // namespace cli
