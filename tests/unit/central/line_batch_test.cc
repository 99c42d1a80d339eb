// SPDX-License-Identifier: BSD-3-Clause
#include "central/line_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/size_classes.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr uintptr_t kStart = static_cast<uintptr_t>(0x7000'4000'0000);  // of a line

// Objects [first, first + n) of a span that starts at a line.
std::vector<void*> Objects(size_t size, size_t first, size_t n) {
  std::vector<void*> objects;
  for (size_t i = first; i < first + n; ++i) {
    objects.push_back(reinterpret_cast<void*>(kStart + i * size));
  }
  return objects;
}

struct Kind {
  size_t size;
  size_t line_objects;
};
constexpr Kind kKinds[] = {{8, 8}, {16, 4}, {32, 2}, {48, 4}, {80, 4}, {96, 2}, {480, 2}};

TEST(LineBatchTest, AGroupIsWholeInEitherDirection) {
  for (const auto& [size, line] : kKinds) {
    for (size_t first = 0; first < 3 * line; ++first) {
      std::vector<void*> group = Objects(size, first, line);
      EXPECT_EQ(IsWholeLineGroup(group.data(), size, line), first % line == 0) << size;
      std::reverse(group.begin(), group.end());
      EXPECT_EQ(IsWholeLineGroup(group.data(), size, line), first % line == 0) << size;
    }
  }
}

TEST(LineBatchTest, AGroupInDisorderOrWithAStrangerIsNotWhole) {
  for (const auto& [size, line] : kKinds) {
    const std::vector<void*> group = Objects(size, line, line);
    for (size_t i = 0; i < line; ++i) {
      std::vector<void*> other = group;
      other[i] = reinterpret_cast<void*>(kStart + 100 * line * size);
      EXPECT_FALSE(IsWholeLineGroup(other.data(), size, line)) << size << " " << i;
      if (line == 2) continue;
      other = group;
      std::swap(other[i], other[(i + 1) % line]);
      EXPECT_FALSE(IsWholeLineGroup(other.data(), size, line)) << size << " " << i;
    }
  }
}

TEST(LineBatchTest, SkipsObjectsInFrontOfTheFirstGroup) {
  constexpr size_t kBatch = 128;
  for (const auto& [size, line] : kKinds) {
    for (size_t first = 0; first < 2 * line; ++first) {
      const size_t skip = (line - first % line) % line;
      std::vector<void*> objects = Objects(size, first, kBatch + skip);
      EXPECT_EQ(FindWholeLines(objects.data(), objects.size(), kBatch, size, line), skip);
      // One object less, and there is no batch any more.
      EXPECT_EQ(FindWholeLines(objects.data(), objects.size() - 1, kBatch, size, line),
                kNoWholeLines);
      // The other way round the objects in front are those above the last group.
      objects = Objects(size, first, kBatch + 3 * line);
      std::reverse(objects.begin(), objects.end());
      EXPECT_EQ(FindWholeLines(objects.data(), objects.size(), kBatch, size, line), first % line);
    }
  }
}

TEST(LineBatchTest, GroupsNeedNotFollowEachOther) {
  SeededRandom random(5);
  constexpr size_t kBatch = 128;
  for (const auto& [size, line] : kKinds) {
    std::vector<std::vector<void*>> groups;
    for (size_t i = 0; i < kBatch / line; ++i) {
      groups.push_back(Objects(size, (3 * i + 1) * line, line));
      if (random.OneIn(2)) std::reverse(groups.back().begin(), groups.back().end());
    }
    std::shuffle(groups.begin(), groups.end(), random.engine());
    std::vector<void*> objects;
    for (const auto& group : groups) objects.insert(objects.end(), group.begin(), group.end());
    EXPECT_EQ(FindWholeLines(objects.data(), kBatch, kBatch, size, line), 0u) << size;
  }
}

TEST(LineBatchTest, OneObjectOutOfPlaceIsFound) {
  constexpr size_t kBatch = 128;
  for (const auto& [size, line] : kKinds) {
    const std::vector<void*> batch = Objects(size, 0, kBatch);
    ASSERT_EQ(FindWholeLines(batch.data(), kBatch, kBatch, size, line), 0u);
    for (size_t i = 0; i < kBatch; ++i) {
      std::vector<void*> objects = batch;
      objects[i] = reinterpret_cast<void*>(kStart + 1000 * line * size);
      ASSERT_EQ(FindWholeLines(objects.data(), kBatch, kBatch, size, line), kNoWholeLines) << i;
    }
  }
}

// Whatever the order: what is found consists of groups of which every object is there.
TEST(LineBatchTest, WhatIsFoundIsWhole) {
  SeededRandom random(6);
  size_t found_any = 0;
  for (int step = 0; step < 3'000; ++step) {
    const auto& [size, line] = kKinds[random.Below(std::size(kKinds))];
    const size_t batch_size = line * random.Between(1, 6);
    std::vector<void*> objects;
    size_t next = random.Below(2 * line);
    while (objects.size() < batch_size + line) {
      std::vector<void*> some = Objects(size, next, random.Between(1, 4 * line));
      if (random.OneIn(3)) std::reverse(some.begin(), some.end());
      objects.insert(objects.end(), some.begin(), some.end());
      next += some.size() + (random.OneIn(3) ? 1 : 0);
    }
    const size_t found = FindWholeLines(objects.data(), objects.size(), batch_size, size, line);
    if (found == kNoWholeLines) continue;
    ++found_any;
    ASSERT_LT(found, line);
    std::vector<void*> batch(objects.begin() + static_cast<ptrdiff_t>(found),
                             objects.begin() + static_cast<ptrdiff_t>(found + batch_size));
    std::sort(batch.begin(), batch.end());
    for (size_t i = 0; i < batch_size; i += line) {
      const uintptr_t lowest = reinterpret_cast<uintptr_t>(batch[i]);
      ASSERT_EQ(lowest % kCacheLineSize, 0u);
      for (size_t j = 0; j < line; ++j) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(batch[i + j]), lowest + j * size);
      }
    }
  }
  EXPECT_GT(found_any, 300u);
}

TEST(LineBatchTest, WhereObjectsFillWholeLinesAnyBatchDoes) {
  const std::vector<void*> batch = Objects(64, 5, 128);
  EXPECT_EQ(FindWholeLines(batch.data(), 128, 128, 64, 1), 0u);
  EXPECT_EQ(FindWholeLines(batch.data(), 127, 128, 64, 1), kNoWholeLines);
}

}  // namespace
}  // namespace tcmalloc
