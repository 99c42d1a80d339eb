// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/found_leaks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "os/memory/virtual_memory.h"

namespace tcmalloc {
namespace {

std::string Written(const FoundLeaks& leaks, LeakFormat format) {
  std::string text;
  EXPECT_TRUE(WriteLeakReport(
      leaks, format,
      [](const void* data, size_t size, void* context) {
        static_cast<std::string*>(context)->append(static_cast<const char*>(data), size);
        return true;
      },
      &text));
  return text;
}

LeakSite* Add(FoundLeaks* leaks, const uintptr_t* frames, size_t depth, size_t object_size,
              uintptr_t object, size_t requested_bytes, bool direct, bool by_object,
              AgeBucket age = AgeBucket::kSecond) {
  return leaks->Add({.frames = frames,
                     .depth = depth,
                     .address = object,
                     .object_size = object_size,
                     .age = age,
                     .requested_bytes = requested_bytes,
                     .direct = direct},
                    by_object);
}

class FoundLeaksTest : public testing::Test {
 protected:
  FoundLeaksTest() : leaks_(vm_) { leaks_.outcome = LeakOutcome::kDone; }

  // Returns the text of the check `name` with at most `most_sites` sites.
  std::string Text(std::string_view name, uint64_t most_sites) {
    // The frames of these tests are in no library.
    const LeakSymbols symbols(leaks_, most_sites, vm_);
    char buffer[2048];
    TextWriter out(buffer, sizeof(buffer));
    WriteLeakText(leaks_, name, most_sites, symbols, &out);
    return std::string(out.text());
  }

  SystemVirtualMemory vm_;
  FoundLeaks leaks_;
};

TEST_F(FoundLeaksTest, EqualStacksAreOneSite) {
  const std::vector<uintptr_t> first = {0x10, 0x20, 0x30};
  const std::vector<uintptr_t> same = first;
  const std::vector<uintptr_t> other = {0x10, 0x20, 0x31};
  ASSERT_NE(Add(&leaks_, first.data(), 3, 64, 0x1000, 50, false, false), nullptr);
  ASSERT_NE(Add(&leaks_, other.data(), 3, 64, 0x2000, 40, true, false), nullptr);
  ASSERT_NE(Add(&leaks_, same.data(), 3, 128, 0x3000, 100, true, false), nullptr);
  ASSERT_NE(Add(&leaks_, first.data(), 2, 64, 0x4000, 7, true, false), nullptr);
  ASSERT_TRUE(leaks_.Finish());
  ASSERT_EQ(leaks_.num_sites(), 3u);
  const LeakSite* const sites = leaks_.begin();
  EXPECT_EQ(sites[0].objects, 2u);
  EXPECT_EQ(sites[0].bytes, 150u);
  EXPECT_EQ(sites[0].direct_objects, 1u);
  EXPECT_EQ(sites[0].direct_bytes, 100u);
  EXPECT_EQ(sites[0].example, 0x3000u) << "one that is lost directly";
  EXPECT_EQ(sites[0].object_size, 0u);
  EXPECT_EQ(std::vector(sites[0].frames, sites[0].frames + sites[0].depth), first);
  EXPECT_NE(sites[0].frames, first.data()) << "frames are the report's own";
  EXPECT_EQ(sites[1].bytes, 40u);
  EXPECT_EQ(sites[2].bytes, 7u);
  EXPECT_EQ(leaks_.objects, 4u);
  EXPECT_EQ(leaks_.bytes, 197u);
  EXPECT_EQ(leaks_.direct_objects, 3u);
  EXPECT_EQ(leaks_.direct_bytes, 147u);
}

TEST_F(FoundLeaksTest, WithoutStacksSitesDifferBySizeAndAge) {
  const uintptr_t frames[] = {0x10, 0x20};
  constexpr size_t kSizes = 2000;
  for (size_t i = 0; i < 2 * kSizes * kNumAgeBuckets; ++i) {
    const auto age = static_cast<AgeBucket>(i % kNumAgeBuckets);
    const size_t size = 8 * (1 + i / kNumAgeBuckets % kSizes);
    ASSERT_NE(Add(&leaks_, nullptr, 0, size, 0x1000 + i, size, true, false, age), nullptr);
    // Objects with a stack do not differ.
    ASSERT_NE(Add(&leaks_, frames, 2, size, 0x1000 + i, 1, true, false, age), nullptr);
  }
  ASSERT_TRUE(leaks_.Finish());
  ASSERT_EQ(leaks_.num_sites(), kSizes * kNumAgeBuckets + 1);
  for (const LeakSite& site : leaks_) {
    ASSERT_EQ(site.objects, site.depth == 0 ? 2u : 2 * kSizes * kNumAgeBuckets);
  }
}

TEST_F(FoundLeaksTest, TheNearestStackIsAHint) {
  Add(&leaks_, nullptr, 0, 64, 0x1000, 64, true, false, AgeBucket::kOlder);
  const uintptr_t frames[] = {0x11, 0x21};
  ASSERT_TRUE(leaks_.SetNearestStack(leaks_.begin(), frames, std::size(frames)));
  ASSERT_TRUE(leaks_.Finish());
  EXPECT_NE(Text("name", 2).find("a hint, not evidence"), std::string::npos);
  EXPECT_NE(Written(leaks_, LeakFormat::kJson)
                .find("\"span_age_ms\":{\"at_least\":3600000},\"example\":\"0x1000\",\"frames\":[],"
                      "\"nearest_sample\":{\"hint\":true,\"frames\":[{\"address\":\"0x11\"},"
                      "{\"address\":\"0x21\"}]}}"),
            std::string::npos);
  const Profile profile = leaks_.AsProfile();
  EXPECT_TRUE(profile.entries[0].guessed_stack);
  EXPECT_EQ(profile.entries[0].depth, 2u);
  EXPECT_EQ(profile.entries[0].age_at_least_ms, 3'600'000);
}

TEST_F(FoundLeaksTest, Formats) {
  const uintptr_t frames[] = {0x11, 0x21};
  Add(&leaks_, frames, 2, 64, 0x1000, 50, true, false);
  leaks_.pause_ns = 1234;
  leaks_.objects_in_use = 9;
  ASSERT_TRUE(leaks_.Finish());
  EXPECT_EQ(Written(leaks_, LeakFormat::kJson),
            "{\"version\":1,\"outcome\":\"done\",\"error\":0,\"signal\":0,\"stuck_thread\":0,"
            "\"recorded\":false,"
            "\"everything\":false,\"time_ns\":0,\"pause_ns\":1234,\"threads\":0,"
            "\"objects_in_use\":9,\"bytes_in_use\":0,\"unread_bytes\":0,\"objects\":1,\"bytes\":50,"
            "\"direct_objects\":1,\"direct_bytes\":50,\"reached_far_objects\":0,"
            "\"reached_far_bytes\":0,\"sites\":[{\"objects\":1,\"bytes\":50,"
            "\"direct_objects\":1,\"direct_bytes\":50,\"example\":\"0x1000\",\"frames\":["
            "{\"address\":\"0x11\"},{\"address\":\"0x21\"}]}]}\n");
  EXPECT_EQ(Written(leaks_, LeakFormat::kLegacyText)
                .rfind("heap profile: 1: 50 [1: 50] @ heapprofile\n1: 50 [1: 50] @ 0x11 0x21\n", 0),
            0u);
  EXPECT_EQ(Written(leaks_, LeakFormat::kProto).substr(0, 3), "\x0a\x04\x08");
  EXPECT_EQ(Written(leaks_, LeakFormat::kFolded), "0x20;0x10 50\n");
}

}  // namespace
}  // namespace tcmalloc
