// SPDX-License-Identifier: BSD-3-Clause
// One thread uses every entry point, and the results are compared with a model that knows each live
// object.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "malloc/program.h"
#include "malloc/tc_names.h"
#include "process/heap.h"
#include "process/release.h"
#include "stats/stats.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// Live objects by address; no two overlap.
class ObjectsModel {
 public:
  void Add(const Held& held) {
    ASSERT_NE(held.p, nullptr);
    const uintptr_t start = reinterpret_cast<uintptr_t>(held.p);
    // Objects of zero bytes have unique addresses, too.
    const uintptr_t end = start + std::max<size_t>(held.size, 1);
    const auto next = ends_.lower_bound(start);
    ASSERT_TRUE(next == ends_.end() || end <= next->first) << "overlaps the next object";
    ASSERT_TRUE(next == ends_.begin() || std::prev(next)->second <= start)
        << "overlaps the previous object";
    ends_[start] = end;
    list_.push_back(held);
    usable_bytes_ += tc_malloc_size(held.p);
  }
  Held TakeAny(SeededRandom& random) {
    std::swap(list_[random.Below(list_.size())], list_.back());
    const Held held = list_.back();
    list_.pop_back();
    ends_.erase(reinterpret_cast<uintptr_t>(held.p));
    usable_bytes_ -= tc_malloc_size(held.p);
    return held;
  }
  size_t size() const { return list_.size(); }
  size_t usable_bytes() const { return usable_bytes_; }

 private:
  std::map<uintptr_t, uintptr_t> ends_;
  std::vector<Held> list_;
  size_t usable_bytes_ = 0;
};

TEST(ModelTest, RandomOperations) {
  SeededRandom random(1234567);
  EnsureHeap();
  Heap& heap = GlobalHeap();
  Trim(heap, 0);
  const size_t in_use_before = CollectStats(heap).in_use_bytes;
  ObjectsModel model;
  for (int step = 0; step < 30000; ++step) {
    const bool grow = (step / 3000) % 2 == 0;
    if (model.size() == 0 || random.Below(10) < (grow ? 6u : 3u)) {
      ASSERT_NO_FATAL_FAILURE(model.Add(AllocateAtRandom(random)));
    } else if (random.OneIn(4)) {
      Held held = model.TakeAny(random);
      ASSERT_NO_FATAL_FAILURE(ReallocateAtRandom(&held, random));
      ASSERT_NO_FATAL_FAILURE(model.Add(held));
    } else {
      FreeAtRandom(model.TakeAny(random), random);
    }
    if (step % 1000 == 0) {
      // Compares with the heap's own statistics, which are independent of the program's records.
      ASSERT_EQ(CollectStats(heap).in_use_bytes - in_use_before, model.usable_bytes());
      ASSERT_EQ(tc_mallinfo2().uordblks - in_use_before, model.usable_bytes());
      heap.CheckInvariants();
    }
    if (step % 5000 == 4999) tc_malloc_trim(random.Below(size_t{1} << 20));
    ASSERT_FALSE(testing::Test::HasFailure()) << "at step " << step;
  }
  while (model.size() > 0) FreeAtRandom(model.TakeAny(random), random);
  Trim(heap, 0);
  heap.CheckInvariants();
  const HeapStats s = CollectStats(heap);
  EXPECT_EQ(s.in_use_bytes, in_use_before);
  EXPECT_EQ(s.page_heap_free_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
