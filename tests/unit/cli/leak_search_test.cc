// SPDX-License-Identifier: BSD-3-Clause
// Tests what a search for leaks reads of a heap, on the heap of this process. Searches run in other
// processes (tests/process): the searching process has pointers to what it found.
#include "heap/leak_search.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "heap/guarded_pool.h"
#include "heap/told_to_checker.h"
#include "image/find_root.h"
#include "image/process_image.h"
#include "malloc/tc_names.h"
#include "tcmalloc/leak_checker.h"
#include "tcmalloc/tcmalloc.h"

namespace cli {
namespace {

Address StartOf(const void* object) { return reinterpret_cast<Address>(object); }

class LeakSearchTest : public testing::Test {
 protected:
  LiveImage image_{getpid()};
  const Target target_{image_, *FindRoot(image_)};
  std::vector<Guard> guards_;
};

using ObjectRecordsTest = LeakSearchTest;

// The probabilities in docs/leak-checker.md.
TEST(LeakChanceTest, OfARandomWordThatLooksLikeAPointer) {
  constexpr LeakOptions kAnywhere = {.max_pointer_offset = UINT64_MAX};
  const auto chance = [](size_t word_bytes, uint64_t words, uint64_t bytes,
                         const LeakOptions& options) {
    return ChanceOfMissing({.words = words, .word_bytes = word_bytes}, options, bytes);
  };
  EXPECT_NEAR(chance(4, 1, 1024, {}), 0.00000024, 0.000000005);
  EXPECT_NEAR(chance(4, 20, 1024, {}), 0.000005, 0.0000005);
  EXPECT_NEAR(chance(4, 262'144, 1024, {}), 0.06, 0.005);
  EXPECT_NEAR(chance(4, 1, 1'000'000, kAnywhere), 0.00023, 0.000005);
  EXPECT_NEAR(chance(4, 20, 1'000'000, kAnywhere), 0.005, 0.0005);
  EXPECT_GT(chance(4, 262'144, 1'000'000, kAnywhere), 0.999);
  EXPECT_DOUBLE_EQ(chance(4, 1, 1'000'000, {}), chance(4, 1, 1025, {}));
  EXPECT_LT(chance(8, uint64_t{1} << 30, 1024, {}), 1e-7);
  EXPECT_EQ(chance(8, 0, 1024, {}), 0);
}

TEST(LeakChanceTest, FoundLeaksStandForMissedOnes) {
  LeakSearch search = {.words = 262'144, .word_bytes = 4};
  EXPECT_EQ(EstimateMissed(search, {}), 0);
  const double chance = ChanceOfMissing(search, {}, 1024);
  search.leaks.assign(940, {.bytes = 1024});
  // About 940 of 1000 leaked objects are found.
  EXPECT_NEAR(EstimateMissed(search, {}), 60, 1);
  EXPECT_NEAR(EstimateMissed(search, {}), 940 * chance / (1 - chance), 1e-9);
  search.leaks.push_back({.bytes = 1'000'000});
  EXPECT_NEAR(EstimateMissed(search, {}), 60, 2);
  EXPECT_EQ(EstimateMissed(search, {.max_pointer_offset = UINT64_MAX}), HUGE_VAL);
}

TEST_F(LeakSearchTest, GuardedObjectsAreObjectsWhileTheyAreInUse) {
  tcmalloc_set_profile_sampling_interval(1);
  ASSERT_EQ(tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 1), 1);
  void* const object = tc_malloc(50);
  void* const freed = tc_malloc(50);
  tc_free(freed);
  ASSERT_EQ(tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 0), 1);
  tcmalloc_set_profile_sampling_interval(0);
  const std::vector<GuardedObject> all = ReadGuardedObjects(target_, &guards_);
  EXPECT_EQ(guards_.size(), 1u);
  const auto find = [&all](void* wanted) {
    return std::find_if(all.begin(), all.end(),
                        [&](const GuardedObject& each) { return each.start == StartOf(wanted); });
  };
  ASSERT_NE(find(object), all.end());
  EXPECT_EQ(find(object)->bytes, 50u);
  EXPECT_NE(find(object)->sample, 0u);
  EXPECT_GT(find(object)->handed_out_ms, 0);
  EXPECT_EQ(find(freed), all.end());
  tc_free(object);
}

TEST_F(ObjectRecordsTest, HaveSitesSizesAndWhatIsNotToBeReported) {
  const auto read = [this] {
    std::vector<ObjectRecord> records;
    ForEachObjectRecord(target_, &guards_,
                        [&](const ObjectRecord& record) { records.push_back(record); });
    return records;
  };
  ASSERT_NE(tcmalloc_leaks_start_recording(), 0);
  void* const object = tc_malloc(777);
  tcmalloc_leaks_disable();
  void* const disabled = tc_malloc(778);
  tcmalloc_leaks_enable();
  const std::vector<ObjectRecord> records = read();
  EXPECT_EQ(guards_.size(), 256u) << "a lock for each shard";
  const auto find = [&records](void* wanted) {
    for (const ObjectRecord& record : records) {
      if (record.object == StartOf(wanted)) return record;
    }
    return ObjectRecord();
  };
  EXPECT_EQ(find(object).requested_bytes, 777u);
  EXPECT_FALSE(find(object).ignored);
  EXPECT_TRUE(find(disabled).ignored);
  EXPECT_GT(ReadSite(target_, find(object).site).size(), 1u);
  tcmalloc_leaks_stop_recording();
  EXPECT_TRUE(read().empty());
  tc_free(object);
  tc_free(disabled);
}

}  // namespace
}  // namespace cli
