// SPDX-License-Identifier: BSD-3-Clause
// Every entry point calls the hooks once for every object, on every path.
#include "process/hooks.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/config.h"
#include "malloc/program.h"
#include "malloc/tc_names.h"
#include "process/current_thread.h"

namespace tcmalloc {
namespace {

// tests/compat adds, sets and removes hooks.
TEST(HookListTest, RefusesNullAndMoreThanItHolds) {
  HookList<void (*)(int*)> list;
  const auto ten = [](int* n) { *n += 10; };
  EXPECT_FALSE(list.Add(nullptr) || list.Remove(nullptr) || list.Remove(ten));
  for (size_t i = 0; i < list.kMaxHooks; ++i) EXPECT_TRUE(list.Add(ten));
  EXPECT_FALSE(list.Add(ten));
  int sum = 0;
  list.Call(&sum);
  EXPECT_EQ(sum, 70);
}

struct Told {
  const void* object;
  size_t size;
  bool is_new;
};
// The vector's capacity is large enough, so hooks do not allocate. Only the thread that runs the
// test has a vector.
thread_local std::vector<Told>* told = nullptr;

void OnNew(const void* object, size_t size) {
  if (told != nullptr) told->push_back({object, size, true});
}
void OnDelete(const void* object) {
  if (told != nullptr) told->push_back({object, 0, false});
}

class HooksTest : public testing::Test {
 protected:
  HooksTest() {
    told_.reserve(1000);
    told = &told_;
    // Puts objects into the cache, so that the fast path would succeed.
    Fill();
    EXPECT_TRUE(AddNewHook(&OnNew));
    EXPECT_TRUE(AddDeleteHook(&OnDelete));
    told_.clear();
  }
  ~HooksTest() override {
    EXPECT_TRUE(RemoveNewHook(&OnNew));
    EXPECT_TRUE(RemoveDeleteHook(&OnDelete));
    EXPECT_FALSE(HooksInstalled());
    told = nullptr;
  }

  static void Fill() {
    std::vector<void*> objects;
    for (const size_t size : {16, 100, 3000}) {
      for (int i = 0; i < 50; ++i) objects.push_back(tc_malloc(size));
    }
    for (void* const object : objects) tc_free(object);
  }

  void ExpectNew(const void* object, size_t size) {
    ASSERT_EQ(told_.size(), 1u);
    EXPECT_TRUE(told_[0].is_new);
    EXPECT_EQ(told_[0].object, object);
    EXPECT_EQ(told_[0].size, size);
    told_.clear();
  }
  void ExpectDelete(const void* object) {
    ASSERT_EQ(told_.size(), 1u);
    EXPECT_FALSE(told_[0].is_new);
    EXPECT_EQ(told_[0].object, object);
    told_.clear();
  }

  std::vector<Told> told_;
};

TEST_F(HooksTest, EveryEntryPointTellsOnce) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{3000}, kMaxSmallSize,
                            kMaxSmallSize + 1, size_t{3000000}}) {
    SCOPED_TRACE(size);
    for (const Allocator& allocator : kAllocators) {
      for (const Deallocator& deallocator : kDeallocators) {
        if (deallocator.family != allocator.family) continue;
        if (allocator.family == Family::kPages) continue;  // pvalloc rounds the size
        void* const p = allocator.allocate(size, 256);
        ExpectNew(p, size);
        deallocator.free(p, size, 256);
        ExpectDelete(p);
      }
    }
  }
  tc_free(nullptr);
  tc_free_sized(nullptr, 8);
  EXPECT_EQ(tc_malloc(static_cast<size_t>(PTRDIFF_MAX)), nullptr);
  EXPECT_TRUE(told_.empty());
}

TEST_F(HooksTest, ReallocIsADeleteAndANew) {
  void* const small = tc_malloc(100);
  ExpectNew(small, 100);
  EXPECT_EQ(tc_realloc(small, 101), small);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_TRUE(!told_[0].is_new && told_[0].object == small);
  EXPECT_TRUE(told_[1].is_new && told_[1].object == small && told_[1].size == 101);
  told_.clear();
  void* const moved = tc_realloc(small, 5000);
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_TRUE(told_[0].is_new && told_[0].object == moved && told_[0].size == 5000);
  EXPECT_TRUE(!told_[1].is_new && told_[1].object == small);
  told_.clear();
  EXPECT_EQ(tc_realloc(moved, 0), nullptr);
  ExpectDelete(moved);
  void* const large = tc_malloc(2000000);
  told_.clear();
  void* const shrunk = tc_realloc(large, 1000000);
  EXPECT_EQ(told_.size(), 2u);
  told_.clear();
  EXPECT_EQ(tc_realloc(shrunk, static_cast<size_t>(PTRDIFF_MAX)), nullptr);
  EXPECT_TRUE(told_.empty());
  tc_free(shrunk);
  ExpectDelete(shrunk);
}

TEST_F(HooksTest, ErrnoIsKept) {
  static const NewHook spoil = [](const void*, size_t) { errno = 5; };
  EXPECT_TRUE(AddNewHook(spoil));
  errno = 77;
  tc_free(tc_malloc(10));
  EXPECT_EQ(errno, 77);
  EXPECT_TRUE(RemoveNewHook(spoil));
}

// One hook removes itself, the other one allocates.
std::atomic<int> calls{0};
void OnceOnly(const void*, size_t) {
  ++calls;
  EXPECT_TRUE(RemoveNewHook(&OnceOnly));
}
void AllocatesOnce(const void*, size_t) {
  static thread_local bool inside = false;
  ++calls;
  if (inside) return;
  inside = true;
  tc_free(tc_malloc(50));
  inside = false;
}

TEST_F(HooksTest, HooksMayRemoveThemselvesAndAllocate) {
  calls = 0;
  EXPECT_TRUE(AddNewHook(&OnceOnly));
  tc_free(tc_malloc(10));
  tc_free(tc_malloc(10));
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(RemoveNewHook(&OnceOnly));
  calls = 0;
  EXPECT_TRUE(AddNewHook(&AllocatesOnce));
  tc_free(tc_malloc(10));
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(RemoveNewHook(&AllocatesOnce));
}

// Without hooks the cache is reachable again at once, with its objects.
TEST(WithoutHooksTest, TheCacheComesBack) {
  tc_free(tc_malloc(100));
  ThreadCache* const cache = current_slot.cache;
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(current_slot.bins.load(), &cache->table().bins());
  EXPECT_TRUE(AddNewHook(&OnNew));
  EXPECT_EQ(current_slot.bins.load(), &kEmptyBins);
  tc_free(tc_malloc(100));
  EXPECT_EQ(current_slot.bins.load(), &kEmptyBins);
  EXPECT_TRUE(RemoveNewHook(&OnNew));
  tc_free(tc_malloc(100));
  EXPECT_EQ(current_slot.bins.load(), &cache->table().bins());
  EXPECT_FALSE(cache->detached());
}

std::atomic<size_t> seen_by_all{0};
void CountNew(const void*, size_t) { seen_by_all.fetch_add(1, std::memory_order_relaxed); }
void CountDelete(const void*) { seen_by_all.fetch_add(1, std::memory_order_relaxed); }

constexpr size_t kPairs = 50;

// Hooks are added and removed while threads allocate, start and end. Every operation that begins
// after a hook was added, and ends before its removal, calls it.
TEST(HooksOfThreadsTest, NoneIsMissed) {
  constexpr int kThreads = 3;
  const int rounds = kDebugBuild ? 60 : 200;
  std::atomic<int> round{0};
  std::atomic<int> done{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      int last = 0;
      std::vector<void*> held(20);
      while (!stop.load(std::memory_order_relaxed)) {
        // These calls make the threads be at arbitrary points when hooks are added and removed.
        for (void*& p : held) p = tc_malloc(100);
        for (void* const p : held) tc_free(p);
        const int now = round.load(std::memory_order_acquire);
        if (now == last) continue;
        last = now;
        for (size_t i = 0; i < kPairs; ++i) tc_free(tc_malloc(1 + i * 20));
        std::thread([] {
          for (size_t i = 0; i < kPairs; ++i) tc_free_sized(tc_malloc(300), 300);
        }).join();
        done.fetch_add(1, std::memory_order_release);
      }
    });
  }
  for (int i = 1; i <= rounds; ++i) {
    ASSERT_TRUE(AddNewHook(&CountNew));
    ASSERT_TRUE(AddDeleteHook(&CountDelete));
    const size_t before = seen_by_all.load();
    round.store(i, std::memory_order_release);
    while (done.load(std::memory_order_acquire) < i * kThreads) std::this_thread::yield();
    // Operations of the threads in between are counted as well, so the number may be larger.
    EXPECT_GE(seen_by_all.load() - before, size_t{kThreads} * 4 * kPairs);
    ASSERT_TRUE(RemoveNewHook(&CountNew));
    ASSERT_TRUE(RemoveDeleteHook(&CountDelete));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(HooksInstalled());
}

}  // namespace
}  // namespace tcmalloc
