// SPDX-License-Identifier: BSD-3-Clause
// Tests the owner's side of the protocol, step by step in one thread.
#include "cache/thread_slot.h"

#include <gtest/gtest.h>

#include <thread>

#include "cache/bins.h"

namespace tcmalloc {
namespace {

TEST(ThreadSlotTest, StartsWithoutACache) {
  const ThreadSlot slot;
  EXPECT_EQ(slot.bins.load(), &kEmptyBins);
  EXPECT_EQ(slot.cache, nullptr);
  EXPECT_EQ(slot.busy.load(), ThreadSlot::kIdle);
  EXPECT_EQ(slot.phase, ThreadSlot::Phase::kNew);
}

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

// Another thread detaches the cache between two access sections: the owner finds empty bins until
// the cache is reattached, and then the state that the other thread left.
TEST(ThreadSlotTest, ATakenCacheIsOutOfReach) {
  ThreadSlot slot;
  Bins bins;
  slot.bins.store(&bins);
  std::thread taker([&] {
    slot.bins.store(const_cast<Bins*>(&kEmptyBins));
    ASSERT_EQ(slot.busy.load(std::memory_order_acquire), ThreadSlot::kIdle);
  });
  taker.join();
  EXPECT_EQ(slot.BeginAccess(), &kEmptyBins);
  slot.EndAccess();
  std::thread returner([&] {
    bins.bytes_until_sample = 42;
    slot.bins.store(&bins, std::memory_order_release);
  });
  // Only the pointer's memory order synchronizes the two threads.
  Bins* found;
  do {
    found = slot.BeginAccess();
    if (found == &bins) {
      EXPECT_EQ(found->bytes_until_sample, 42u);
    }
    slot.EndAccess();
    std::this_thread::yield();
  } while (found != &bins);
  returner.join();
}

// A thread that finds the owner busy sees, once the access section has ended, that the owner is
// idle, and all changes of the section.
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

TEST(ThreadSlotTest, FewWords) { EXPECT_LE(sizeof(ThreadSlot), 32u); }

}  // namespace
}  // namespace tcmalloc
