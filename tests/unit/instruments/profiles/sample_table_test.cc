// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/sample_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "os/memory/anonymous_memory.h"
#include "os/stack_trace.h"
#include "testing/fake_virtual_memory.h"
#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

// The number of a profile's objects by stack (one frame) and size.
using Objects = std::map<std::pair<uintptr_t, size_t>, uint64_t>;

class SampleTableTest : public ::testing::Test {
 protected:
  Sample* Add(uintptr_t frame, size_t bytes, double weight = 1, size_t depth = 1,
              size_t period = 2000) {
    Sample* const sample = table_.New(depth);
    for (size_t i = 0; i < depth; ++i) sample->stack[i] = frame + i;
    sample->requested_bytes = bytes;
    sample->allocated_bytes = bytes;
    sample->weight = weight;
    sample->period = period;
    table_.Add(sample);
    return sample;
  }
  Objects Snapshot(ProfileKind kind) {
    ProfileMemory profile;
    EXPECT_TRUE(table_.Snapshot(kind, 1000, memory_, &profile));
    EXPECT_EQ(profile.profile.kind, kind);
    Objects objects;
    for (size_t i = 0; i < profile.profile.num_entries; ++i) {
      const ProfileEntry& entry = profile.profile.entries[i];
      const bool allocations = kind == ProfileKind::kAllocations;
      const uint64_t n = allocations ? entry.allocated_objects : entry.live_objects;
      EXPECT_EQ(allocations ? entry.allocated_bytes : entry.live_bytes, n * entry.object_size);
      if (!allocations) {
        EXPECT_EQ(entry.allocated_objects, n);
      }
      // No two entries have the same stack and size.
      EXPECT_TRUE(objects.emplace(std::pair(entry.frames[0], entry.object_size), n).second);
    }
    return objects;
  }

  AnonymousMemory memory_;
  MetadataArena arena_{memory_};
  SampleTable table_{arena_};
};

TEST_F(SampleTableTest, StacksAreCompleteAndWeightsAddUp) {
  Add(1000, 64, 2.5, kMaxStackDepth);
  Add(1000, 64, 2.5, kMaxStackDepth);
  Add(1000, 64, 2.5, 0);
  ProfileMemory profile;
  ASSERT_TRUE(table_.Snapshot(ProfileKind::kHeap, 1000, memory_, &profile));
  ASSERT_EQ(profile.profile.num_entries, 2u);
  EXPECT_EQ(profile.profile.entries[0].depth, 0u);
  const ProfileEntry& deep = profile.profile.entries[1];
  ASSERT_EQ(deep.depth, kMaxStackDepth);
  for (size_t i = 0; i < kMaxStackDepth; ++i) ASSERT_EQ(deep.frames[i], 1000 + i);
  EXPECT_EQ(deep.live_objects, 2u);
  EXPECT_EQ(deep.live_bytes, 128u);
  EXPECT_EQ(deep.estimated_live_objects, 5);
  EXPECT_EQ(deep.estimated_live_bytes, 320);
  EXPECT_EQ(table_.GetTotals().bytes, 480u);
}

// Readers scale the recorded figures by the profile's period, so it must be the period of the
// samples.
TEST_F(SampleTableTest, SeveralPeriods) {
  ProfileMemory profile;
  ASSERT_TRUE(table_.Snapshot(ProfileKind::kHeap, 1000, memory_, &profile));
  EXPECT_EQ(profile.profile.sample_period, 1000u);
  Add(1, 64, 10.25);
  ASSERT_TRUE(table_.Snapshot(ProfileKind::kHeap, 1000, memory_, &profile));
  EXPECT_EQ(profile.profile.sample_period, 2000u);
  EXPECT_EQ(profile.profile.entries[0].live_objects, 1u);
  Add(1, 64, 20.75, 1, 4000);
  ASSERT_TRUE(table_.Snapshot(ProfileKind::kHeap, 1000, memory_, &profile));
  EXPECT_EQ(profile.profile.sample_period, 0u);
  ASSERT_EQ(profile.profile.num_entries, 1u);
  EXPECT_EQ(profile.profile.entries[0].live_objects, 31u);
  EXPECT_EQ(profile.profile.entries[0].live_bytes, 1984u);
  EXPECT_EQ(profile.profile.entries[0].estimated_live_objects, 31);
}

// Compares the table with a model that keeps everything, with and without recordings.
TEST_F(SampleTableTest, EveryKindAgreesWithAModel) {
  std::mt19937_64 random(20261122);
  std::vector<Sample*> live;
  Objects heap;
  Objects peak;
  Objects recorded;
  size_t bytes = 0;
  size_t peak_bytes = 0;
  bool recording = false;
  const auto change = [](Objects* objects, const Sample& sample, int64_t by) {
    const std::pair<uintptr_t, size_t> key(sample.stack[0], sample.requested_bytes);
    if (((*objects)[key] += static_cast<uint64_t>(by)) == 0) objects->erase(key);
  };
  for (int i = 0; i < 20'000; ++i) {
    // The heap grows and shrinks, so that there are many peaks, and long times without a peak.
    const bool grows = i / 500 % 3 != 2;
    if (live.empty() || random() % 10 < (grows ? 6 : 3)) {
      Sample* const sample = Add(random() % 7, 8 + 8 * (random() % 5));
      live.push_back(sample);
      change(&heap, *sample, 1);
      if (recording) change(&recorded, *sample, 1);
      bytes += sample->requested_bytes;
      if (bytes > peak_bytes) {
        peak_bytes = bytes;
        peak = heap;
      }
    } else {
      std::swap(live[random() % live.size()], live.back());
      Sample* const sample = live.back();
      live.pop_back();
      change(&heap, *sample, -1);
      bytes -= sample->requested_bytes;
      table_.Remove(sample);
    }
    if (random() % 700 == 0) {
      if (recording) {
        table_.EndRecording();
        recorded.clear();
      } else {
        ASSERT_TRUE(table_.BeginRecording());
      }
      recording = !recording;
      ASSERT_EQ(table_.BeginRecording(), !recording);
      if (!recording) table_.EndRecording();
    }
    if (i % 100 == 0) {
      ASSERT_EQ(Snapshot(ProfileKind::kHeap), heap) << i;
      ASSERT_EQ(Snapshot(ProfileKind::kPeakHeap), peak) << i;
      ASSERT_EQ(Snapshot(ProfileKind::kAllocations), recorded) << i;
      ASSERT_EQ(table_.GetTotals().samples, live.size());
      ASSERT_EQ(table_.GetTotals().bytes, bytes);
      ASSERT_EQ(table_.GetTotals().peak_bytes, peak_bytes);
    }
  }
  // The table takes memory for the samples of the peak, not for all samples ever taken.
  for (Sample* const sample : live) table_.Remove(sample);
  EXPECT_LT(arena_.allocated_bytes(), (peak_bytes / 8 + 100) * 128);
}

TEST_F(SampleTableTest, RecordsAreUsedAgain) {
  Sample* const first = Add(1, 100);
  EXPECT_EQ(first->number, 1u);
  EXPECT_EQ(Add(2, 50)->number, 2u);
  table_.Remove(first);  // a part of the peak
  EXPECT_EQ(first->number, 1u);
  Sample* const third = Add(3, 1000);  // the next peak
  EXPECT_EQ(first->number, 0u);
  EXPECT_EQ(Add(4, 100), first);
  EXPECT_EQ(first->stack[0], 4u);
  table_.Remove(third);
  EXPECT_EQ(Snapshot(ProfileKind::kHeap), (Objects{{{2, 50}, 1}, {{4, 100}, 1}}));
}

TEST_F(SampleTableTest, NoSampleWithoutMemory) {
  FakeVirtualMemory no_memory;
  MetadataArena arena(no_memory);
  SampleTable table(arena);
  no_memory.FailMap(1);
  EXPECT_EQ(table.New(1), nullptr);
  Sample* const record = table.New(0);
  ASSERT_NE(record, nullptr);
  while (arena.AllocateWithoutGrowing(kMaxStackDepth * sizeof(uintptr_t)) != nullptr) {
  }
  no_memory.FailMap(1);
  EXPECT_EQ(table.New(kMaxStackDepth), nullptr);
  EXPECT_EQ(table.New(0), record + 1);  // its record was not lost
}

// Threads add and remove samples while one reads. The sanitizers check this.
TEST_F(SampleTableTest, ManyThreads) {
  std::atomic<bool> done{false};
  std::thread looks([&] {
    ProfileMemory profile;
    while (!done) {
      for (const ProfileKind kind :
           {ProfileKind::kHeap, ProfileKind::kPeakHeap, ProfileKind::kAllocations}) {
        ASSERT_TRUE(table_.Snapshot(kind, 1000, memory_, &profile));
      }
      if (!table_.BeginRecording()) table_.EndRecording();
    }
  });
  RunThreads(4, [&](size_t t) {
    std::mt19937_64 random(t);
    std::vector<Sample*> live;
    for (int i = 0; i < 5000; ++i) {
      if (live.size() < 100 && random() % 2 == 0) {
        live.push_back(Add(t, 1 + random() % 1000, 1, 1 + random() % 30));
      } else if (!live.empty()) {
        table_.Remove(live.back());
        live.pop_back();
      }
    }
    for (Sample* const sample : live) table_.Remove(sample);
  });
  done = true;
  looks.join();
  EXPECT_EQ(table_.GetTotals().samples, 0u);
  EXPECT_EQ(table_.GetTotals().bytes, 0u);
}

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
  for (size_t i = 0; i < kMaxGrowthStacks; ++i) Add(10, {i % 100, 7});
  const size_t used = arena_.allocated_bytes();
  EXPECT_LE(used, size_t{1} << 20);
  Add(1000, {5, 7});
  Add(2000, {5, 7});
  Add(300, {5, 8});
  Add(400, {});
  EXPECT_EQ(arena_.allocated_bytes(), used);
  const std::vector<Growth> growths = Snapshot();
  ASSERT_EQ(growths.size(), kMaxGrowthStacks + 1);
  uint64_t times = 0;
  uint64_t bytes = 0;
  for (const Growth& growth : growths) {
    times += growth.times;
    bytes += growth.bytes;
  }
  EXPECT_EQ(times, kMaxGrowthStacks + 4);
  EXPECT_EQ(bytes, 10 * kMaxGrowthStacks + 3700);
  // The last record with an equal stack counts further growths.
  const size_t last = (kMaxGrowthStacks - 6) / 100 * 100 + 5;
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
