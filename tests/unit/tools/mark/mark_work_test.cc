// SPDX-License-Identifier: BSD-3-Clause
#include "tools/mark/mark_work.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <vector>

#include "os/memory/virtual_memory.h"
#include "testing/random.h"
#include "tools/leak/check_memory.h"

namespace tcmalloc {
namespace {

TEST(MarkItemTest, KeepsAddressAndKind) {
  const uintptr_t start = static_cast<uintptr_t>(0x7fff'ffff'fff8ull);
  const MarkItem item(start, 0x1ff);
  EXPECT_EQ(item.start(), start);
  EXPECT_EQ(item.kind(), 0xffu) << "the lowest 8 bits";
}

class MarkWorkTest : public testing::Test {
 protected:
  SystemVirtualMemory vm;
  CheckMemory memory{vm};
};

TEST_F(MarkWorkTest, RingIsFirstInFirstOut) {
  constexpr size_t kCapacity = 8;
  MarkRing ring;
  ASSERT_TRUE(ring.Prepare(memory, kCapacity));
  std::deque<uintptr_t> model;
  SeededRandom random(7);
  size_t times_full = 0;
  for (uintptr_t next = 1; next < 2000; ++next) {
    if (!ring.is_full() && random.OneIn(2)) {
      ring.Push(MarkItem(next, 0));
      model.push_back(next);
    } else if (!ring.empty() && random.OneIn(2)) {
      EXPECT_EQ(ring.TakeFirst().start(), model.front());
      model.pop_front();
    }
    ASSERT_EQ(ring.size(), model.size());
    EXPECT_EQ(ring.empty(), model.empty());
    EXPECT_EQ(ring.is_full(), model.size() == kCapacity);
    EXPECT_EQ(ring.accepts(), model.size() < kCapacity);
    times_full += ring.is_full();
  }
  EXPECT_GT(times_full, 0u);
}

TEST_F(MarkWorkTest, ClosedRingAcceptsNothing) {
  MarkRing ring;
  ASSERT_TRUE(ring.Prepare(memory, 4));
  ring.Close();
  EXPECT_FALSE(ring.accepts());
  EXPECT_FALSE(ring.is_full());
  ring.Push(MarkItem(64, 0));
  EXPECT_EQ(ring.TakeFirst().start(), 64u);
  ring.Open();
  EXPECT_TRUE(ring.accepts());
}

TEST_F(MarkWorkTest, QueueIsFirstInFirstOut) {
  MarkQueue queue;
  std::vector<uint64_t> objects(100);
  size_t taken = 0;
  for (const uint64_t& object : objects) {
    if (queue.full()) {
      EXPECT_EQ(queue.TakeFirst().start(), reinterpret_cast<uintptr_t>(&objects[taken++]));
    }
    queue.Add(MarkItem(reinterpret_cast<uintptr_t>(&object), 0));
  }
  EXPECT_EQ(objects.size() - taken, 16u);
  for (; !queue.empty(); ++taken) {
    EXPECT_EQ(queue.TakeFirst().start(), reinterpret_cast<uintptr_t>(&objects[taken]));
  }
  EXPECT_EQ(taken, objects.size());
}

TEST_F(MarkWorkTest, NotedObjectsAreASet) {
  constexpr size_t kNumbers = 1000;
  NotedObjects noted;
  ASSERT_TRUE(noted.Prepare(memory, kNumbers));
  std::set<size_t> model;
  SeededRandom random(11);
  for (int i = 0; i < 20000; ++i) {
    const size_t number = random.Below(kNumbers);
    if (random.OneIn(2)) {
      if (model.insert(number).second) noted.Add(number);
    } else if (random.OneIn(500)) {
      std::vector<size_t> swept;
      noted.Sweep([&](size_t n) { swept.push_back(n); });
      EXPECT_EQ(swept, std::vector<size_t>(model.begin(), model.end()));
      model.clear();
    } else if (!model.empty()) {
      EXPECT_EQ(noted.TakeFirst(), *model.begin());
      model.erase(model.begin());
    }
    ASSERT_EQ(noted.size(), model.size());
  }
}

// Numbers may be added during a sweep. The sweep visits those ahead of its position, and the others
// stay for the next one.
TEST_F(MarkWorkTest, SweepVisitsNumbersAddedAhead) {
  NotedObjects noted;
  ASSERT_TRUE(noted.Prepare(memory, 1000));
  noted.Add(200);
  noted.Add(300);
  std::vector<size_t> swept;
  noted.Sweep([&](size_t number) {
    swept.push_back(number);
    if (number != 200) return;
    noted.Add(10);
    noted.Add(999);
  });
  EXPECT_EQ(swept, (std::vector<size_t>{200, 300, 999}));
  EXPECT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted.TakeFirst(), 10u);
}

}  // namespace
}  // namespace tcmalloc
