// SPDX-License-Identifier: BSD-3-Clause
// Tests the owner's side of the protocol, step by step in one thread.
#include "thread_cache/thread_slot.h"

#include <gtest/gtest.h>

#include <thread>

#include "thread_cache/bins.h"

namespace tcmalloc {
namespace {

TEST(ThreadSlotTest, AnAccessSectionIsVisibleWhileItLasts) {
  ThreadSlot slot;
  Bins bins;
  slot.bins.store(&bins);
  EXPECT_EQ(slot.BeginAccess(), &bins);
  EXPECT_EQ(slot.busy.load(), ThreadSlot::kBusy);
  slot.EndAccess();
  EXPECT_EQ(slot.busy.load(), ThreadSlot::kIdle);
  EXPECT_EQ(slot.BeginAccess(), &bins);
  EXPECT_EQ(slot.busy.load(), ThreadSlot::kBusy);
  slot.EndAccess();
  EXPECT_EQ(slot.busy.load(), ThreadSlot::kIdle);
}

TEST(ThreadSlotTest, AnAccessToOneBinIsVisibleToo) {
  ThreadSlot slot;
  Bins bins;
  slot.bins.store(&bins);
  for (size_t i = 0; i < kNumSizeClasses; ++i) {
    const ScaledClass c = Scaled(static_cast<SizeClass>(i));
    EXPECT_EQ(slot.BeginFastAccess(c), &bins.tops[i]);
    EXPECT_EQ(slot.busy.load(), ThreadSlot::kBusy);
    slot.EndAccess();
    EXPECT_EQ(bins.Bin(c), &bins.tops[i]);
  }
}

// Another thread finds the owner busy. Once the access section has ended, that thread sees that the
// owner is idle, and all changes of the section.
TEST(ThreadSlotTest, TheEndOfASectionPublishesItsWork) {
  ThreadSlot slot;
  Bins bins;
  slot.bins.store(&bins);
  Bins* const found = slot.BeginAccess();
  std::thread taker([&] {
    slot.bins.store(const_cast<Bins*>(&kEmptyBins));
    while (slot.busy.load(std::memory_order_acquire) != ThreadSlot::kIdle)
      std::this_thread::yield();
    EXPECT_EQ(bins.bytes_until_sample, 7u);
  });
  found->bytes_until_sample = 7;
  slot.EndAccess();
  taker.join();
}

}  // namespace
}  // namespace tcmalloc
