// SPDX-License-Identifier: BSD-3-Clause
// During a bypass no thread reaches its cache.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "thread_cache/cache_fixture.h"

namespace tcmalloc {
namespace {

std::atomic<bool> wanted{false};
bool Wanted() { return wanted.load(); }

class RegistryBypassTest : public testing::Test {
 protected:
  ~RegistryBypassTest() override { wanted = false; }

  void Bypass(bool on, TestThread* own = nullptr) {
    wanted = on;
    heap_.registry.UpdateBypass(&Wanted, own == nullptr ? nullptr : own->cache());
  }
  static bool Reachable(TestThread& thread) {
    return thread.slot().bins.load() == &thread.table().bins();
  }
  void Fill(TestThread& thread) {
    thread.Use(c_, 40);
    ASSERT_GT(thread.CachedObjects(c_), 0u);
  }

  CacheTestHeap heap_;
  const SizeClass c_ = ClassForSize(64);
};

TEST_F(RegistryBypassTest, TheCentralCacheServesInstead) {
  TestThread one(heap_.registry);
  TestThread two(heap_.registry);
  Fill(one);
  const size_t cached = one.CachedObjects(c_);
  Bypass(true, &one);
  EXPECT_FALSE(Reachable(one));
  EXPECT_FALSE(Reachable(two));
  heap_.registry.CheckInvariants();
  for (TestThread* thread : {&one, &two}) {
    std::vector<void*> objects;
    for (int i = 0; i < 1000; ++i) objects.push_back(thread->Allocate(c_));
    EXPECT_TRUE(heap_.Conserved(c_, 1000));
    for (void* const object : objects) thread->Free(c_, object);
    EXPECT_FALSE(Reachable(*thread));
  }
  EXPECT_EQ(one.CachedObjects(c_), cached);
  EXPECT_EQ(two.CachedObjects(c_), 0u);
  // A second call changes nothing.
  Bypass(true);
  heap_.registry.CheckInvariants();

  Bypass(false);
  // Each thread reattaches its cache at its next slow path.
  EXPECT_FALSE(Reachable(one));
  one.Free(c_, one.Allocate(c_));
  EXPECT_TRUE(Reachable(one));
  EXPECT_FALSE(Reachable(two));
  void* const object = two.Allocate(c_);
  EXPECT_TRUE(Reachable(two));
  two.Free(c_, object);
  heap_.registry.CheckInvariants();
  EXPECT_TRUE(heap_.Conserved(c_, 0));
  EXPECT_EQ(one.Allocate(c_) != nullptr, true);
}

TEST_F(RegistryBypassTest, ADetachedCacheCanBeFlushedByItsOwner) {
  TestThread one(heap_.registry);
  Fill(one);
  const size_t cached = one.CachedBytes();
  Bypass(true, &one);
  EXPECT_EQ(one.cache()->Flush(), cached);
  EXPECT_EQ(one.CachedBytes(), 0u);
  EXPECT_TRUE(heap_.Conserved(c_, 0));
  EXPECT_EQ(one.cache()->Flush(), 0u);
  heap_.registry.CheckInvariants();
  Bypass(false);
  Fill(one);
  EXPECT_TRUE(Reachable(one));
  heap_.registry.CheckInvariants();
}

TEST_F(RegistryBypassTest, ACacheRegisteredMeanwhileIsDetachedToo) {
  Bypass(true);
  TestThread late(heap_.registry);
  EXPECT_FALSE(Reachable(late));
  EXPECT_TRUE(late.cache()->detached());
  late.Free(c_, late.Allocate(c_));
  EXPECT_FALSE(Reachable(late));
  Bypass(false);
  late.Free(c_, late.Allocate(c_));
  EXPECT_TRUE(Reachable(late));
}

TEST_F(RegistryBypassTest, ADetachedCacheIsInherited) {
  heap_.registry.SetInheritance(true);
  TestThread first(heap_.registry);
  Fill(first);
  ThreadCache* const cache = first.cache();
  Bypass(true);
  first.Exit();
  Bypass(false);
  TestThread heir(heap_.registry);
  ASSERT_EQ(heir.cache(), cache);
  EXPECT_TRUE(Reachable(heir));
  EXPECT_FALSE(heir.cache()->detached());
  heap_.registry.CheckInvariants();
}

TEST_F(RegistryBypassTest, OthersLeaveDetachedCachesAlone) {
  TestThread one(heap_.registry);
  Fill(one);
  const size_t cached = one.CachedObjects(c_);
  Bypass(true);
  EXPECT_EQ(heap_.registry.FlushAll(nullptr), 0u);
  EXPECT_EQ(one.CachedObjects(c_), cached);
  Bypass(false);
  one.Free(c_, one.Allocate(c_));
  EXPECT_GT(heap_.registry.FlushAll(nullptr), 0u);
}

// Around fork, the thread that forks must not write to other threads' slots: their memory may be
// unmapped.
TEST_F(RegistryBypassTest, AroundForkOnlyTheOwnSlotIsWrittenTo) {
  TestThread own(heap_.registry);
  TestThread other(heap_.registry);
  heap_.registry.lock().HoldForFork();
  SpinLock::BeginForkHold();
  Bypass(true, &own);
  EXPECT_FALSE(Reachable(own));
  EXPECT_TRUE(Reachable(other));
  SpinLock::EndForkHold();
  heap_.registry.lock().ReleaseAfterForkInParent();
  Bypass(true, &own);
  EXPECT_FALSE(Reachable(other));
}

}  // namespace
}  // namespace tcmalloc
