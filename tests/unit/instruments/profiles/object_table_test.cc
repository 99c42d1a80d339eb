// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/object_table.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

using Stack = std::vector<uintptr_t>;

class SiteTableTest : public testing::Test {
 protected:
  SiteTableTest() { EXPECT_TRUE(sites_.Prepare()); }

  Site* SiteOf(const Stack& stack) { return sites_.SiteOf(stack.data(), stack.size()); }
  std::map<Stack, ProfileEntry> Entries() {
    std::vector<ProfileEntry> entries(sites_.num_sites() + 1);
    entries.resize(sites_.Read(entries.data(), entries.size()));
    std::map<Stack, ProfileEntry> result;
    for (const ProfileEntry& entry : entries) {
      const Stack stack(entry.frames, entry.frames + entry.depth);
      EXPECT_TRUE(result.emplace(stack, entry).second);
    }
    return result;
  }

  FakeVirtualMemory vm_;
  MetadataArena arena_{vm_};
  SiteTable sites_{arena_};
};

class ObjectTableTest : public SiteTableTest {
 protected:
  bool Insert(uintptr_t object, Site* site, size_t bytes) {
    return objects_.Insert(object, site, bytes, &traffic_);
  }
  bool Remove(uintptr_t object) { return objects_.Remove(object, &traffic_); }

  ObjectTable objects_{arena_};
  ObjectTable::Traffic traffic_;
};

TEST_F(ObjectTableTest, ClearFreesAllObjectsAndMemory) {
  Site* const site = SiteOf({1});
  const size_t before = arena_.allocated_bytes();
  for (uintptr_t i = 1; i <= 100000; ++i) ASSERT_TRUE(Insert(i * 16, site, 7));
  EXPECT_GT(arena_.allocated_bytes(), before);
  EXPECT_FALSE(Remove(8));
  objects_.Clear();
  EXPECT_EQ(arena_.allocated_bytes(), before);
  EXPECT_EQ(objects_.num_objects(), 0u);
  EXPECT_EQ(Entries()[{1}].live_objects, 0u);
  EXPECT_EQ(Entries()[{1}].live_bytes, 0u);
  EXPECT_EQ(Entries()[{1}].allocated_objects, 100000u);
  sites_.BeginSession();
  EXPECT_TRUE(Entries().empty());
  ASSERT_TRUE(Insert(16, site, 7));
  EXPECT_EQ(Entries()[{1}].allocated_objects, 1u);
}

TEST_F(ObjectTableTest, TrafficIsReportedAboveTheThreshold) {
  objects_.SetTrafficThreshold(100);
  Site* const site = SiteOf({1});
  // The same address is always in the same shard.
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(Insert(0x1000, site, 10));
    EXPECT_TRUE(Remove(0x1000));
    EXPECT_FALSE(traffic_.Any());
  }
  EXPECT_TRUE(Insert(0x1000, site, 10));
  EXPECT_EQ(traffic_.allocated_bytes, 110u);
  EXPECT_EQ(traffic_.freed_bytes, 100u);
}

TEST_F(ObjectTableTest, WithoutMemory) {
  Site* const site = SiteOf({1});
  vm_.FailMap(1, 1000000);
  std::vector<uintptr_t> inserted;
  size_t refused = 0;
  for (uintptr_t i = 1; i <= 100000; ++i) {
    if (Insert(i * 16, site, 1)) {
      inserted.push_back(i * 16);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(inserted.size(), 0u);
  EXPECT_EQ(objects_.num_objects(), inserted.size());
  EXPECT_EQ(Entries()[{1}].live_objects, inserted.size());
  for (const uintptr_t object : inserted) ASSERT_TRUE(Remove(object));
  EXPECT_EQ(objects_.num_objects(), 0u);
}

// Compares random operations with a map. There are few addresses, so that they collide.
TEST_F(ObjectTableTest, AgainstAModel) {
  constexpr uint64_t kSeed = 90210;
  SeededRandom random(kSeed);
  constexpr size_t kSites = 20;
  Site* sites[kSites];
  for (size_t i = 0; i < kSites; ++i) sites[i] = SiteOf({i});
  std::map<uintptr_t, std::pair<size_t, size_t>> model;  // object: site, bytes
  std::map<Stack, ProfileEntry> expected;
  for (int step = 0; step < 400000; ++step) {
    // Phases with more insertions and phases with more removals alternate.
    const bool fills = (step / 20000) % 2 == 0;
    const uintptr_t object = 16 * (1 + random.Below(20000));
    if (random.Below(10) < (fills ? 8u : 2u)) {
      const size_t site = random.Below(kSites);
      const size_t bytes = random.Below(1000);
      const auto [place, fresh] = model.try_emplace(object);
      if (!fresh) {
        --expected[{place->second.first}].live_objects;
        expected[{place->second.first}].live_bytes -= place->second.second;
      }
      place->second = {site, bytes};
      ProfileEntry& entry = expected[{site}];
      ++entry.live_objects;
      ++entry.allocated_objects;
      entry.live_bytes += bytes;
      entry.allocated_bytes += bytes;
      ASSERT_TRUE(Insert(object, sites[site], bytes));
    } else {
      const auto found = model.find(object);
      ASSERT_EQ(Remove(object), found != model.end()) << step;
      if (found == model.end()) continue;
      --expected[{found->second.first}].live_objects;
      expected[{found->second.first}].live_bytes -= found->second.second;
      model.erase(found);
    }
  }
  EXPECT_EQ(objects_.num_objects(), model.size());
  std::map<Stack, ProfileEntry> entries = Entries();
  ASSERT_EQ(entries.size(), expected.size());
  for (const auto& [stack, entry] : expected) {
    EXPECT_EQ(entries[stack].live_objects, entry.live_objects);
    EXPECT_EQ(entries[stack].live_bytes, entry.live_bytes);
    EXPECT_EQ(entries[stack].allocated_objects, entry.allocated_objects);
    EXPECT_EQ(entries[stack].allocated_bytes, entry.allocated_bytes);
  }
  for (const auto& [object, unused] : model) ASSERT_TRUE(Remove(object));
  EXPECT_EQ(objects_.num_objects(), 0u);
}

TEST_F(SiteTableTest, DeepStacksAreCutToTheirInnermostFrames) {
  Stack deep(kMaxSiteDepth + 10, 5);
  Site* const site = SiteOf(deep);
  EXPECT_EQ(site->depth(), kMaxSiteDepth);
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
  const std::map<Stack, ProfileEntry> entries = Entries();
  EXPECT_EQ(entries.size(), model.size());
  uint64_t sum = 0;
  for (const auto& [stack, entry] : entries) {
    sum += entry.allocated_objects;
    ASSERT_TRUE(model.count(stack));
    ASSERT_EQ(model[stack]->frames(), entry.frames);
  }
  EXPECT_EQ(sum, 100000u);
}

}  // namespace
}  // namespace tcmalloc
