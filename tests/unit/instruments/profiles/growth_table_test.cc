// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/growth_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/tuning.h"
#include "os/memory/anonymous_memory.h"
#include "os/stack_trace.h"
#include "testing/fake_virtual_memory.h"

namespace tcmalloc {
namespace {

struct Growth {
  std::vector<uintptr_t> stack;
  uint64_t bytes = 0;
  uint64_t times = 0;

  bool operator==(const Growth&) const = default;
};

class GrowthTableTest : public ::testing::Test {
 protected:
  void Add(size_t bytes, const std::vector<uintptr_t>& stack) {
    table_.Add(bytes, stack.data(), stack.size());
  }
  std::vector<Growth> Snapshot() {
    ProfileMemory profile;
    EXPECT_TRUE(table_.Snapshot(memory_, &profile));
    EXPECT_EQ(profile.profile.kind, ProfileKind::kGrowth);
    std::vector<Growth> growths;
    for (size_t i = 0; i < profile.profile.num_entries; ++i) {
      const ProfileEntry& entry = profile.profile.entries[i];
      EXPECT_EQ(entry.estimated_allocated_bytes, static_cast<double>(entry.allocated_bytes));
      growths.push_back({{entry.frames, entry.frames + entry.depth},
                         entry.allocated_bytes,
                         entry.allocated_objects});
    }
    return growths;
  }

  FakeVirtualMemory arena_memory_;
  AnonymousMemory memory_;
  MetadataArena arena_{arena_memory_};
  GrowthTable table_{arena_};
};

TEST_F(GrowthTableTest, InTheOrderOfTime) {
  EXPECT_TRUE(Snapshot().empty());
  Add(100, {1, 2, 3});
  Add(50, {4});
  Add(100, {1, 2, 3});
  EXPECT_EQ(Snapshot(),
            (std::vector<Growth>{{{1, 2, 3}, 100, 1}, {{4}, 50, 1}, {{1, 2, 3}, 100, 1}}));
}

// The table's memory is bounded, and the sum stays right.
TEST_F(GrowthTableTest, FullTable) {
  for (size_t i = 0; i < kTuning.sampling.max_growth_stacks; ++i) Add(10, {i % 100, 7});
  const size_t used = arena_.allocated_bytes();
  EXPECT_LE(used, size_t{1} << 20);
  Add(1000, {5, 7});
  Add(2000, {5, 7});
  Add(300, {5, 8});
  Add(400, {});
  EXPECT_EQ(arena_.allocated_bytes(), used);
  const std::vector<Growth> growths = Snapshot();
  ASSERT_EQ(growths.size(), kTuning.sampling.max_growth_stacks + 1);
  uint64_t times = 0;
  uint64_t bytes = 0;
  for (const Growth& growth : growths) {
    times += growth.times;
    bytes += growth.bytes;
  }
  EXPECT_EQ(times, kTuning.sampling.max_growth_stacks + 4);
  EXPECT_EQ(bytes, 10 * kTuning.sampling.max_growth_stacks + 3700);
  // The last record with an equal stack counts further growths.
  const size_t last = (kTuning.sampling.max_growth_stacks - 6) / 100 * 100 + 5;
  EXPECT_EQ(growths[last], (Growth{{5, 7}, 3010, 3}));
  EXPECT_EQ(growths.back(), (Growth{{}, 700, 2}));
}

TEST_F(GrowthTableTest, WithoutMemoryForARecord) {
  arena_memory_.FailMap(1, SIZE_MAX);
  // The memory that remains in the arena is used first.
  const std::vector<uintptr_t> stack(kMaxStackDepth, 2);
  for (int i = 0; i < 1000; ++i) Add(10, stack);
  Add(5, {3});
  uint64_t bytes = 0;
  for (const Growth& growth : Snapshot()) bytes += growth.bytes;
  EXPECT_EQ(bytes, 10'005u);
}

}  // namespace
}  // namespace tcmalloc
