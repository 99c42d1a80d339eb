// SPDX-License-Identifier: BSD-3-Clause
#include "thread_cache/bin_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "testing/random.h"
#include "thread_cache/bin_policy.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kTableSeed = 51423;

// An empty array with room for `capacity` objects, as ThreadCache makes it.
struct OwnedArray {
  OwnedArray(SizeClass c, size_t limit, size_t capacity)
      : words(BinArray::BytesFor(capacity) / sizeof(uint64_t)) {
    array = new (words.data()) BinArray{.capacity = static_cast<uint16_t>(capacity),
                                        .limit = static_cast<uint16_t>(limit),
                                        .count = 0,
                                        .size_class = c,
                                        .overages = 0,
                                        .unused_for = 0,
                                        .fetched = 0};
    std::fill_n(array->slots(), capacity + 2, BinSlot{0});
    array->slots()[limit + 1] = kFullMark;
  }
  std::vector<uint64_t> words;
  BinArray* array;
};

// Compares one bin with a model, a list of objects from the oldest to the newest.
TEST(BinTableTest, ABinIsAStackWhoseOldestCanBeTaken) {
  SeededRandom random(kTableSeed);
  const SizeClass c = kSizeClasses.ClassOf(64);
  const size_t i = Index(c);
  const size_t max = std::min<size_t>(bin_policy::MaxLimit(c), 200);
  BinTable table;
  std::deque<uintptr_t> model;
  std::vector<std::unique_ptr<OwnedArray>> arrays;
  uintptr_t next_object = 0x10000;
  size_t limit = 0;
  for (int step = 0; step < 20'000; ++step) {
    switch (random.Below(6)) {
      case 0: {  // installs an array of another size
        const size_t capacity = random.Between(std::max<size_t>(model.size(), 1), max);
        limit = random.Between(std::max<size_t>(model.size(), 1), capacity);
        arrays.push_back(std::make_unique<OwnedArray>(c, limit, capacity));
        table.Install(i, arrays.back()->array);
        if (arrays.size() > 1) arrays.erase(arrays.begin());
        break;
      }
      case 1:
        if (table.Array(i) == nullptr) break;
        limit = random.Between(std::max<size_t>(model.size(), 1), table.Array(i)->capacity);
        table.SetLimit(i, limit);
        break;
      case 2: {
        const uintptr_t object = next_object += 64;
        const bool pushed = table.bins().Push(c, reinterpret_cast<void*>(object));
        ASSERT_EQ(pushed, model.size() < limit);
        if (!pushed) break;
        model.push_back(object);
        ASSERT_TRUE(table.IsNewest(i, reinterpret_cast<void*>(object)));
        break;
      }
      case 3: {
        void* const object = table.bins().Pop(c);
        ASSERT_EQ(object, model.empty() ? nullptr : reinterpret_cast<void*>(model.back()));
        if (!model.empty()) model.pop_back();
        break;
      }
      case 4: {
        if (table.Array(i) == nullptr) break;
        std::vector<void*> objects(1 + random.Below(19));
        for (void*& object : objects) object = reinterpret_cast<void*>(next_object += 64);
        const size_t left = table.PushAll(i, objects.data(), objects.size());
        ASSERT_EQ(left, objects.size() - std::min(objects.size(), limit - model.size()));
        // The last object is popped first. The bin had no room for the first `left` objects.
        for (size_t n = left; n < objects.size(); ++n) {
          model.push_back(reinterpret_cast<uintptr_t>(objects[n]));
        }
        break;
      }
      case 5: {
        void* objects[20];
        const size_t taken = table.TakeOldest(i, objects, random.Below(20));
        for (size_t n = 0; n < taken; ++n) {
          ASSERT_EQ(reinterpret_cast<uintptr_t>(objects[n]), model.front());
          model.pop_front();
        }
        break;
      }
    }
    ASSERT_EQ(table.CachedObjects(c), model.size());
    ASSERT_EQ(table.CachedBytes(), model.size() * kSizeClasses.size(c));
    if (step % 16 == 0) table.CheckInvariants();
  }
  table.Remove(i);
  EXPECT_EQ(table.claimed_bytes(), 0u);
  EXPECT_EQ(table.array_bytes(), 0u);
  EXPECT_EQ(table.CachedBytes(), 0u);
  table.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
