// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/site_table.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/tuning.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

using Stack = std::vector<uintptr_t>;

class SiteTableTest : public testing::Test {
 protected:
  SiteTableTest() : vm_(FakeVirtualMemory::Options()), arena_(vm_), sites_(arena_) {
    EXPECT_TRUE(sites_.Prepare());
  }

  Site* SiteOf(const Stack& stack) { return sites_.SiteOf(stack.data(), stack.size()); }

  std::vector<ProfileEntry> Entries() {
    std::vector<ProfileEntry> entries(sites_.num_sites() + 1);
    entries.resize(sites_.Read(entries.data(), entries.size()));
    return entries;
  }

  FakeVirtualMemory vm_;
  MetadataArena arena_;
  SiteTable sites_;
};

TEST_F(SiteTableTest, DeepStacksAreCutToTheirInnermostFrames) {
  Stack deep(kTuning.heap_profiler.max_depth + 10, 5);
  Site* const site = SiteOf(deep);
  EXPECT_EQ(site->depth(), kTuning.heap_profiler.max_depth);
  deep.back() = 6;
  EXPECT_EQ(SiteOf(deep), site);
  deep.front() = 6;
  EXPECT_NE(SiteOf(deep), site);
}

TEST_F(SiteTableTest, WithoutMemory) {
  vm_.FailMap(1, 1000000);
  SiteTable other(arena_);
  EXPECT_FALSE(other.Prepare());
  Site* const first = SiteOf({1});
  size_t refused = 0;
  for (uintptr_t i = 2; i < 20000; ++i) refused += SiteOf({i, 1, 2, 3}) == nullptr ? 1 : 0;
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(SiteOf({1}), first);
}

TEST_F(SiteTableTest, AgainstAModel) {
  constexpr uint64_t kSeed = 4711;
  SeededRandom random(kSeed);
  std::map<Stack, Site*> model;
  for (int i = 0; i < 100000; ++i) {
    // Short stacks of few addresses repeat.
    Stack stack(random.Below(6));
    for (uintptr_t& frame : stack) frame = random.Below(8);
    Site* const site = SiteOf(stack);
    const auto [place, fresh] = model.try_emplace(stack, site);
    ASSERT_EQ(place->second, site);
    site->Allocated(1);
  }
  EXPECT_EQ(sites_.num_sites(), model.size());
  const std::vector<ProfileEntry> entries = Entries();
  EXPECT_EQ(entries.size(), model.size());
  uint64_t sum = 0;
  for (const ProfileEntry& entry : entries) {
    sum += entry.allocated_objects;
    const Stack stack(entry.frames, entry.frames + entry.depth);
    ASSERT_TRUE(model.count(stack));
    ASSERT_EQ(model[stack]->frames(), entry.frames);
  }
  EXPECT_EQ(sum, 100000u);
}

}  // namespace
}  // namespace tcmalloc
