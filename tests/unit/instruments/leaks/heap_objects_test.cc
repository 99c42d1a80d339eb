// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/heap_objects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "instruments/leaks/leak_fixture.h"
#include "instruments/profiles/sampler.h"
#include "process/current_thread.h"
#include "process/release.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

using Objects = std::map<uintptr_t, size_t>;

void Add(Objects* objects, void* p) { (*objects)[AddressOf(p)] = tc_malloc_size(p); }

// Prints a difference, not a million numbers.
void ExpectSame(const Objects& found, const Objects& own) {
  const auto [f, o] = std::mismatch(found.begin(), found.end(), own.begin(), own.end());
  if (f != found.end()) ADD_FAILURE() << "found: " << f->first << " of " << f->second << " bytes";
  if (o != own.end()) ADD_FAILURE() << "in use: " << o->first << " of " << o->second << " bytes";
}

void FreeAll(const Objects& objects) {
  for (const auto& [start, bytes] : objects) tc_free(reinterpret_cast<void*>(start));
}

// Allocates an object of any class, aligned or not, or a large object.
void* AllocateAny(SeededRandom& random) {
  switch (random.Below(8)) {
    case 0:
      return tc_memalign(size_t{1} << random.Below(17), random.Below(5000));
    case 1:
      return tc_malloc(random.Below(400 << 10));
    case 2:
      return tc_malloc(
          kSizeClasses.size(static_cast<SizeClass>(random.Between(1, kNumSizeClasses - 1))));
    default:
      return tc_malloc(random.Below(1 << random.Below(14)));
  }
}

TEST(ObjectIndexTest, FindsObjectsOfEverySizeUnlessFreed) {
  SeededRandom random(9001);
  Objects own;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    for (int n = 0; n < 5; ++n) Add(&own, tc_malloc(kSizeClasses.size(static_cast<SizeClass>(i))));
  }
  for (int i = 0; i < 20000; ++i) Add(&own, AllocateAny(random));
  Add(&own, tc_malloc(100 << 20));
  Add(&own, tc_malloc(0));
  for (int round = 0; round < 4; ++round) {
    const Look look;
    ExpectSame(look.Objects(), own);
    EXPECT_EQ(look.index.num_objects(), own.size());
    size_t bytes = 0;
    for (const auto& [start, size] : own) bytes += size;
    EXPECT_EQ(look.index.object_bytes(), bytes);
    // Some freed objects go to bins, some to spans, and some spans to span caches.
    for (auto object = own.begin(); object != own.end();) {
      const bool keep = random.OneIn(3);
      if (!keep) tc_free(reinterpret_cast<void*>(object->first));
      object = keep ? std::next(object) : own.erase(object);
    }
    for (int i = 0; i < 3000; ++i) Add(&own, AllocateAny(random));
  }
  FreeAll(own);
  EXPECT_EQ(Look().index.num_objects(), 0u);
  Trim(GlobalHeap(), 0);
  EXPECT_EQ(Look().index.num_objects(), 0u);
}

TEST(ObjectIndexTest, ListsSamplesAndTimesOfSpans) {
  Heap& heap = ExistingHeap();
  const int64_t start_ms = CoarseMilliseconds();
  Objects own;
  for (int i = 0; i < 20000; ++i) Add(&own, tc_malloc(48));
  ASSERT_TRUE(SetSamplePeriod(heap, 512));
  for (int i = 0; i < 2000; ++i) Add(&own, tc_malloc(i % 10 == 0 ? 600000 : 1000));
  SetSamplePeriod(heap, 0);
  const Look look;
  Objects samples;
  size_t with_sample = 0;
  look.index.ForEachSampled([&](const LiveObject& object, const void* sample) {
    EXPECT_EQ(look.index.SampleOf(object), sample);
    samples[object.start] = object.bytes;
  });
  size_t since_start = 0;
  look.index.ForEach([&](const LiveObject& object) {
    const bool sampled = look.index.SampleOf(object) != nullptr;
    with_sample += sampled;
    EXPECT_EQ(samples.count(object.start), sampled ? 1u : 0u);
    const int64_t ms = look.index.HandedOutMs(object);
    EXPECT_LE(ms, CoarseMilliseconds());
    since_start += ms >= start_ms;
    // A sampled object has a span of its own, which is as new as the object.
    if (sampled) {
      EXPECT_GE(ms, start_ms);
    }
  });
  EXPECT_EQ(samples.size(), with_sample);
  EXPECT_GT(with_sample, 100u);
  // The other objects are in spans that existed before.
  EXPECT_GT(since_start, own.size() / 2);
  FreeAll(own);
}

// A thread may be stopped between the two stores of Bins::Push.
TEST(ObjectIndexTest, HalfPushedObjectIsInFlight) {
  std::vector<void*> objects;
  for (int i = 0; i < 10; ++i) objects.push_back(tc_malloc(100));
  tc_free(objects[0]);
  tc_free(objects[1]);
  const SizeClass c = kSizeClasses.ClassOf(100);
  Bins* const bins = current_slot.BeginAccess();
  BinSlot* const top = bins->tops[Index(c)].load();
  const BinSlot before = top[1];
  top[1] = AddressOf(objects[2]);
  const auto in_flight = [](const Look& look) {
    std::vector<uintptr_t> all;
    look.index.ForEachInFlight([&](uintptr_t object) { all.push_back(object); });
    return all;
  };
  {
    const Look look;
    EXPECT_TRUE(look.index.settled());
    const std::vector<uintptr_t> found = in_flight(look);
    EXPECT_EQ(std::count(found.begin(), found.end(), AddressOf(objects[2])), 1);
    LiveObject object;
    EXPECT_TRUE(look.index.Find(AddressOf(objects[2]), &object));
    EXPECT_FALSE(look.index.Find(AddressOf(objects[1]), &object));
  }
  bins->tops[Index(c)].store(top + 1);
  {
    const Look look;
    LiveObject object;
    EXPECT_FALSE(look.index.Find(AddressOf(objects[2]), &object));
  }
  bins->tops[Index(c)].store(top);
  top[1] = before;
  current_slot.EndAccess();
  EXPECT_TRUE(in_flight(Look()).empty());
  for (size_t i = 2; i < objects.size(); ++i) tc_free(objects[i]);
}

}  // namespace
}  // namespace tcmalloc
