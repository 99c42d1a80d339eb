// SPDX-License-Identifier: BSD-3-Clause
#include "process/current_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

#include "process/heap.h"
#include "process/release.h"
#include "stats/stats.h"
#include "testing/heap_fixture.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

// The next thread inherits the cache. Without inheritance its objects return to the central cache.
TEST(CurrentThreadTest, TheEndOfAThreadReturnsItsCache) {
  ASSERT_NE(CurrentCache(), nullptr);
  Heap& heap = GlobalHeap();
  const size_t caches = TotalsOf(heap.registry).caches;
  const SizeClass c = ClassForSize(704);
  ThreadCache* left = nullptr;
  size_t objects = 0;
  std::thread([&] {
    left = CurrentCache();
    ASSERT_NE(left, nullptr);
    ASSERT_EQ(TotalsOf(heap.registry).caches, caches + 1);
    left->Free(c, left->Allocate(c));
    objects = CachedObjects(heap.registry, c);
    ASSERT_GT(objects, 0u);
  }).join();
  EXPECT_EQ(TotalsOf(heap.registry).caches, caches);
  EXPECT_EQ(CachedObjects(heap.registry, c), objects);
  std::thread([&] {
    EXPECT_EQ(CurrentCache(), left);
    EXPECT_EQ(left->table().CachedObjects(c), objects);
    EXPECT_EQ(&left->slot(), &current_slot);
  }).join();
  FlushThreadCaches(heap);
  EXPECT_EQ(CachedObjects(heap.registry, c), 0u);
  EXPECT_EQ(CollectSizeClassStats(heap, c).spans, 0u);
}

// Destructors of other keys may run after the thread's cache was given up. The central cache then
// serves them, and no second cache is made.
TEST(CurrentThreadTest, NoCacheAfterTheEndHasBegun) {
  struct Seen {
    bool called = false;
    ThreadCache* cache = nullptr;
    ThreadSlot::Phase phase = ThreadSlot::Phase::kNew;
    int rounds_left = 3;
    pthread_key_t key;
  };
  static Seen seen;
  // The destructor sets the value again each time, so that its last round comes after the cache's
  // own destructor.
  const auto destructor = [](void* value) {
    Seen* const s = static_cast<Seen*>(value);
    if (--s->rounds_left > 0) {
      pthread_setspecific(s->key, s);
      return;
    }
    s->called = true;
    s->cache = CurrentCache();
    s->phase = current_slot.phase;
  };
  ASSERT_EQ(pthread_key_create(&seen.key, destructor), 0);
  std::thread([] {
    ASSERT_NE(CurrentCache(), nullptr);
    pthread_setspecific(seen.key, &seen);
  }).join();
  EXPECT_TRUE(seen.called);
  EXPECT_EQ(seen.cache, nullptr);
  EXPECT_EQ(seen.phase, ThreadSlot::Phase::kFinished);
  pthread_key_delete(seen.key);
}

TEST(CurrentThreadTest, FreesAloneMakeACacheAtLast) {
  EnsureHeap();
  Heap& heap = GlobalHeap();
  const size_t caches = TotalsOf(heap.registry).caches;
  std::thread([&] {
    for (int i = 0; i < kFreesBeforeCache; ++i) ASSERT_EQ(CacheForFree(), nullptr) << i;
    EXPECT_EQ(current_slot.phase, ThreadSlot::Phase::kNew);
    EXPECT_EQ(TotalsOf(heap.registry).caches, caches);
    ThreadCache* const cache = CacheForFree();
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(CacheForFree(), cache);
    EXPECT_EQ(CurrentCache(), cache);
    EXPECT_EQ(TotalsOf(heap.registry).caches, caches + 1);
  }).join();
  EXPECT_EQ(TotalsOf(heap.registry).caches, caches);
  // A thread that allocates gets a cache at once.
  std::thread([] {
    ThreadCache* const cache = CurrentCache();
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(CacheForFree(), cache);
  }).join();
}

// While the C library ends a thread, the thread's signals are blocked. A free makes no cache then.
// If the signals were blocked for another reason, a later free makes one.
TEST(CurrentThreadTest, NoCacheForFreesWhereNothingWouldCollectIt) {
  EnsureHeap();
  Heap& heap = GlobalHeap();
  const size_t caches = TotalsOf(heap.registry).caches;
  const auto change_mask = [](int how) {
    const uint64_t signal_32 = uint64_t{1} << 31;
    ASSERT_EQ(syscall(SYS_rt_sigprocmask, how, &signal_32, nullptr, sizeof(signal_32)), 0);
  };
  std::thread([&] {
    change_mask(SIG_BLOCK);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(CacheForFree(), nullptr) << i;
    EXPECT_EQ(TotalsOf(heap.registry).caches, caches);
    EXPECT_EQ(current_slot.phase, ThreadSlot::Phase::kNew);
    change_mask(SIG_UNBLOCK);
    int frees = 1;
    while (CacheForFree() == nullptr) ASSERT_LE(++frees, kFreesBeforeCache + 1);
    EXPECT_EQ(TotalsOf(heap.registry).caches, caches + 1);
  }).join();
  EXPECT_EQ(TotalsOf(heap.registry).caches, caches);
}

// With TCMALLOC_CHECK no thread has a cache.
TEST(CurrentThreadTest, NoCacheWhenEveryCallIsChecked) {
  EnsureHeap();
  std::thread([] {
    GlobalHeap().settings.check = true;
    EXPECT_EQ(CurrentCache(), nullptr);
    EXPECT_EQ(CurrentCache(), nullptr);
    GlobalHeap().settings.check = false;
    // The thread's first call decided that it has no cache.
    EXPECT_EQ(CurrentCache(), nullptr);
  }).join();
}

}  // namespace
}  // namespace tcmalloc
