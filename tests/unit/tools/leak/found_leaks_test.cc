// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/found_leaks.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <string>
#include <vector>

#include "os/memory/virtual_memory.h"
#include "testing/fake_virtual_memory.h"

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

TEST_F(FoundLeaksTest, WithoutStacksSitesDifferBySize) {
  for (uintptr_t i = 1; i <= 10; ++i) {
    const size_t size = i % 2 == 0 ? 64 : 128;
    ASSERT_NE(Add(&leaks_, nullptr, 0, size, i * 0x1000, size, true, false), nullptr);
  }
  ASSERT_TRUE(leaks_.Finish());
  ASSERT_EQ(leaks_.num_sites(), 2u);
  EXPECT_EQ(leaks_.begin()[0].object_size, 128u);
  EXPECT_EQ(leaks_.begin()[0].objects, 5u);
  EXPECT_EQ(leaks_.begin()[1].object_size, 64u);
}

TEST_F(FoundLeaksTest, WithoutStacksSitesDifferByAge) {
  const uintptr_t frames[] = {0x10, 0x20};
  // The objects have two sizes. Their spans were handed out at these times, and the clock now shows
  // 100 s.
  for (const int64_t ms : {20'000, 39'000, 41'000, 91'000, 99'500, 99'999, 100'000}) {
    for (const size_t size : {size_t{64}, size_t{128}}) {
      const AgeBucket age = AgeBucketOf(100'000 - ms);
      const auto address = static_cast<uintptr_t>(size << 20) + static_cast<uintptr_t>(ms);
      ASSERT_NE(Add(&leaks_, nullptr, 0, size, address, size, true, false, age), nullptr);
      // Objects with a stack do not differ by age.
      ASSERT_NE(Add(&leaks_, frames, 2, size, address + 1, 1, true, false, age), nullptr);
    }
  }
  ASSERT_TRUE(leaks_.Finish());
  ASSERT_EQ(leaks_.num_sites(), 9u);
  struct Group {
    size_t object_size;
    AgeBucket age;
    uint64_t objects;
    bool operator==(const Group&) const = default;
  };
  std::vector<Group> groups;
  for (const LeakSite& site : leaks_) groups.push_back({site.object_size, site.age, site.objects});
  const std::vector<Group> expected = {
      {128, AgeBucket::kSecond, 3}, {128, AgeBucket::kTenMinutes, 2},
      {64, AgeBucket::kSecond, 3},  {64, AgeBucket::kTenMinutes, 2},
      {128, AgeBucket::kMinute, 1}, {128, AgeBucket::kTenSeconds, 1},
      {64, AgeBucket::kMinute, 1},  {64, AgeBucket::kTenSeconds, 1},
      {0, AgeBucket::kSecond, 14}};
  EXPECT_EQ(groups, expected);
}

TEST_F(FoundLeaksTest, SitesStayApartWhenTheTableGrows) {
  constexpr size_t kSizes = 2000;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kSizes * kNumAgeBuckets; ++i) {
      const auto age = static_cast<AgeBucket>(i % kNumAgeBuckets);
      const size_t size = 8 * (1 + i / kNumAgeBuckets);
      ASSERT_NE(Add(&leaks_, nullptr, 0, size, 0x1000 + i, size, true, false, age), nullptr);
    }
  }
  ASSERT_TRUE(leaks_.Finish());
  ASSERT_EQ(leaks_.num_sites(), kSizes * kNumAgeBuckets);
  for (const LeakSite& site : leaks_) ASSERT_EQ(site.objects, 2u);
}

TEST_F(FoundLeaksTest, EveryFormatMarksTheNearestSiteAsAHint) {
  Add(&leaks_, nullptr, 0, 64, 0x1000, 64, true, false, AgeBucket::kOlder);
  Add(&leaks_, nullptr, 0, 32, 0x2000, 32, true, false, AgeBucket::kMinute);
  std::vector<uintptr_t> frames = {0x11, 0x21};
  ASSERT_TRUE(leaks_.SetNearestStack(leaks_.begin(), frames.data(), frames.size()));
  frames.assign(2, 0);  // the report has a copy
  ASSERT_TRUE(leaks_.Finish());
  EXPECT_EQ(
      Text("name", 2),
      "tcmalloc: Leak check name detected leaks of 96 bytes in 2 objects, directly 96 bytes in 2 "
      "objects; 2 call sites\n"
      "tcmalloc: The 2 largest leaks:\n"
      "  64 bytes in 1 object, each of 64 bytes, in spans handed out 1 h ago or earlier\n"
      "    a hint, not evidence: the nearest sampled object of this size, allocated from\n"
      "      0x10\n"
      "      0x20\n"
      "  32 bytes in 1 object, each of 32 bytes, in spans handed out 10 s to 1 min ago\n");
  const std::string json = Written(leaks_, LeakFormat::kJson);
  EXPECT_NE(json.find("\"object_size\":64,\"span_age_ms\":{\"at_least\":3600000},"
                      "\"example\":\"0x1000\",\"frames\":[],\"nearest_sample\":{\"hint\":true,"
                      "\"frames\":[{\"address\":\"0x11\"},{\"address\":\"0x21\"}]}}"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("\"object_size\":32,\"span_age_ms\":{\"at_least\":10000,\"below\":60000},"
                      "\"example\":\"0x2000\",\"frames\":[]}"),
            std::string::npos)
      << json;
  EXPECT_EQ(Written(leaks_, LeakFormat::kFolded), "0x20;0x10 64\n");
  EXPECT_EQ(Written(leaks_, LeakFormat::kLegacyText)
                .rfind("heap profile: 2: 96 [2: 96] @ heapprofile\n1: 64 [1: 64] @ 0x11 0x21\n", 0),
            0u);
  const Profile profile = leaks_.AsProfile();
  ASSERT_EQ(profile.num_entries, 2u);
  EXPECT_TRUE(profile.entries[0].guessed_stack);
  EXPECT_EQ(profile.entries[0].depth, 2u);
  EXPECT_EQ(profile.entries[0].age_at_least_ms, 3'600'000);
  EXPECT_FALSE(profile.entries[1].guessed_stack);
  EXPECT_EQ(profile.entries[1].depth, 0u);
  EXPECT_EQ(profile.entries[1].age_at_least_ms, 10'000);
}

TEST_F(FoundLeaksTest, FirstWordsAreWrittenIfKnown) {
  LeakSite* const site = Add(&leaks_, nullptr, 0, 64, 0x1000, 64, true, false);
  ASSERT_EQ(site->num_words, 0u);
  EXPECT_EQ(Written(leaks_, LeakFormat::kJson).find("words"), std::string::npos);
  EXPECT_EQ(Written(leaks_, LeakFormat::kText).find("begins with"), std::string::npos);
  site->num_words = 2;
  site->words[0] = 0xabc;
  site->words[1] = 0xdef;
  ASSERT_TRUE(leaks_.Finish());
  EXPECT_NE(Written(leaks_, LeakFormat::kJson).find(",\"words\":[\"0xabc\",\"0xdef\"],"),
            std::string::npos);
  EXPECT_NE(
      Written(leaks_, LeakFormat::kText).find("one of them at 0x1000 begins with 0xabc 0xdef"),
      std::string::npos);
}

TEST_F(FoundLeaksTest, SitesWithStacksHaveNoAgeInAProfile) {
  const uintptr_t frames[] = {0x11};
  Add(&leaks_, frames, 1, 64, 0x1000, 50, true, false, AgeBucket::kOlder);
  ASSERT_TRUE(leaks_.Finish());
  EXPECT_EQ(leaks_.AsProfile().entries[0].age_at_least_ms, -1);
  EXPECT_FALSE(leaks_.AsProfile().entries[0].guessed_stack);
}

TEST_F(FoundLeaksTest, ByObjectEachObjectIsASite) {
  const uintptr_t frames[] = {0x10, 0x20};
  for (uintptr_t i = 1; i <= 3; ++i) {
    ASSERT_NE(Add(&leaks_, frames, 2, 64, i * 0x1000, 50 * i, true, true), nullptr);
  }
  ASSERT_TRUE(leaks_.Finish());
  ASSERT_EQ(leaks_.num_sites(), 3u);
  const LeakSite& largest = *leaks_.begin();
  ASSERT_EQ(largest.depth, 3u);
  EXPECT_EQ(largest.frames[0], 0x3000u);
  EXPECT_EQ(largest.frames[1], 0x10u);
  EXPECT_EQ(largest.frames[2], 0x20u);
}

TEST_F(FoundLeaksTest, ManySites) {
  constexpr uintptr_t kSites = 5000;
  for (int round = 0; round < 2; ++round) {
    for (uintptr_t i = 0; i < kSites; ++i) {
      const uintptr_t frames[] = {0x1000 + i, 0x20};
      ASSERT_NE(Add(&leaks_, frames, 2, 64, 0x100000 + i * 64, i, true, false), nullptr);
    }
  }
  ASSERT_TRUE(leaks_.Finish());
  ASSERT_EQ(leaks_.num_sites(), kSites);
  uint64_t before = UINT64_MAX;
  for (const LeakSite& site : leaks_) {
    EXPECT_EQ(site.objects, 2u);
    EXPECT_LE(site.bytes, before);
    before = site.bytes;
  }
  const Profile profile = leaks_.AsProfile();
  ASSERT_EQ(profile.num_entries, kSites);
  EXPECT_EQ(profile.entries[0].live_bytes, 2 * (kSites - 1));
  EXPECT_EQ(profile.entries[0].live_objects, 2u);
  EXPECT_EQ(profile.sample_period, 0u);
}

TEST_F(FoundLeaksTest, WithoutMemory) {
  int failures = 0;
  for (int nth = 1; nth <= 5; ++nth) {
    FakeVirtualMemory vm{FakeVirtualMemory::Options()};
    vm.FailMap(static_cast<size_t>(nth));
    FoundLeaks leaks(vm);
    bool complete = true;
    for (uintptr_t i = 0; i < 3000 && complete; ++i) {
      const uintptr_t frames[] = {0x1000 + i};
      complete = Add(&leaks, frames, 1, 64, 0x1000, 64, true, false) != nullptr;
    }
    if (!complete || !leaks.Finish()) ++failures;
  }
  EXPECT_EQ(failures, 5);
}

TEST_F(FoundLeaksTest, Text) {
  const uintptr_t frames[] = {0x11, 0x21};
  LeakSite* const site = Add(&leaks_, frames, 2, 64, 0x1000, 50, true, false);
  site->num_words = 1;
  site->words[0] = 0xabc;
  Add(&leaks_, nullptr, 0, 32, 0x2000, 32, true, false);
  Add(&leaks_, nullptr, 0, 32, 0x2020, 32, false, false);
  Add(&leaks_, nullptr, 0, 16, 0x3000, 16, false, false);
  leaks_.recorded = true;
  ASSERT_TRUE(leaks_.Finish());
  EXPECT_EQ(
      Text("name", 2),
      "tcmalloc: Leak check name detected leaks of 130 bytes in 4 objects, directly 82 bytes in "
      "2 objects; 3 call sites\n"
      "tcmalloc: The 2 largest leaks:\n"
      "  64 bytes in 2 objects, directly leaked: 32 bytes in 1 object, each of "
      "32 bytes, in spans handed out less than 1 s ago, from before allocations were "
      "recorded\n"
      "  50 bytes in 1 object, allocated from\n"
      "    0x10\n"
      "    0x20\n"
      "    one of them at 0x1000 begins with 0xabc\n"
      "  and 1 more\n");
}

TEST_F(FoundLeaksTest, TextWithoutLeaksAndWithoutResult) {
  ASSERT_TRUE(leaks_.Finish());
  leaks_.objects_in_use = 12;
  leaks_.bytes_in_use = 3456;
  EXPECT_EQ(Text("x", 20),
            "tcmalloc: leak check \"x\": no leaks found, 12 objects, 3456 bytes checked\n");
  leaks_.objects_in_use = 0;
  EXPECT_EQ(Text("x", 20),
            "tcmalloc: leak check \"x\": no object is in use, so nothing was checked; the program "
            "may have another malloc\n");
  leaks_.objects_in_use = 12;
  leaks_.outcome = LeakOutcome::kNotStopped;
  leaks_.error = 1;
  EXPECT_EQ(Text("x", 20),
            "tcmalloc: leak check \"x\": other threads could not be stopped (Operation not "
            "permitted): objects that only they hold may be reported as leaks\n"
            "tcmalloc: leak check \"x\": no leaks found, 12 objects, 3456 bytes checked\n");
  leaks_.outcome = LeakOutcome::kImpossible;
  leaks_.error = 13;
  EXPECT_EQ(Text("x", 20),
            "tcmalloc: leak check \"x\": not checked: the process cannot read its own threads or "
            "mappings (Permission denied); check that /proc is mounted and that no sandbox forbids "
            "ptrace and clone\n");
  leaks_.signal = 11;
  EXPECT_EQ(
      Text("x", 20),
      "tcmalloc: leak check \"x\": not checked: the check was ended by signal 11; the program "
      "was not affected\n");
  leaks_.signal = SIGSYS;
  EXPECT_EQ(Text("x", 20),
            "tcmalloc: leak check \"x\": not checked: a sandbox ended the check at a system call; "
            "allow those that docs/system-calls.md lists for leak checks\n");
  leaks_.stuck_thread = 4711;
  EXPECT_EQ(
      Text("x", 20),
      "tcmalloc: leak check \"x\": not checked: thread 4711 could not be stopped: it waits in "
      "the kernel, for a disk or network file system or for the child of its vfork to call "
      "exec; check again when that is over\n");
  leaks_.outcome = LeakOutcome::kNoMemory;
  leaks_.error = 0;
  EXPECT_EQ(Text("x", 20),
            "tcmalloc: leak check \"x\": not checked: the system has no memory for the check\n");
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
            "\"direct_objects\":1,\"direct_bytes\":50,\"sites\":[{\"objects\":1,\"bytes\":50,"
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
