// SPDX-License-Identifier: BSD-3-Clause
// Tests the functions of tcmalloc/tcmalloc.h in a real process: with threads that are blocked for
// ever, that work, that end; with and without membarrier(2); across fork.
#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "../check.h"
#include "../child.h"
#include "../refuse_calls.h"
#include "sleepers.h"
#include "tcmalloc/malloc_extension.h"
#include "workers.h"

namespace {

constexpr unsigned kSeed = 116;

class Flush : public testing::Test {
 protected:
  static void SetUpTestSuite() { RequireLibraryUnderTest(); }
};

// Before an allocation fails for a limit, the caches of sleeping threads are emptied. This test
// runs first: the other ones leave more records.
TEST_F(Flush, BeforeAnAllocationFails) {
  using tcmalloc::MallocExtension;
  constexpr size_t kMiB = size_t{1} << 20;
  constexpr size_t kLimit = 96 * kMiB;
  // This is more than records and nearly empty spans take.
  constexpr size_t kRecords = 4 * kMiB;
  MallocExtension::SetMemoryLimit(kLimit, MallocExtension::LimitKind::kHard);
  std::barrier filled(5);
  std::barrier done(5);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2; ++round) {
        // As many objects of each class as the cache keeps.
        std::vector<void*> objects;
        for (int i = 0; i < 20; ++i) {
          for (size_t size = 64; size < 200000; size += size / 8) {
            while (objects.size() * size < 256 << 10) objects.push_back(NewMarked(size, 1));
            for (void* const object : objects) Free(object);
            objects.clear();
          }
        }
        filled.arrive_and_wait();
        done.arrive_and_wait();
      }
    });
  }
  // The first round shows how much memory the caches hold.
  filled.arrive_and_wait();
  CHECK(tcmalloc_flush_thread_caches() + tcmalloc_flush_central_caches() > 2 * kRecords);
  done.arrive_and_wait();
  filled.arrive_and_wait();
  // Takes everything but the records, in one piece.
  void* const large = Malloc(kLimit - kRecords);
  CHECK(large != nullptr);
  Free(large);
  done.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  MallocExtension::SetMemoryLimit(0, MallocExtension::LimitKind::kHard);
}

TEST_F(Flush, LeavesNothingInTheCachesOfSleepers) {
  const Sleepers threads(32);
  const size_t cached = ThreadCacheBytes();
  ASSERT_GT(cached, size_t{32} * 10000);
  const size_t moved = tcmalloc_flush_thread_caches();
  const size_t left = ThreadCacheBytes();
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(moved, cached);
  // The shard of this CPU keeps spans that became empty before.
  const size_t moved_on = tcmalloc_flush_central_caches();
  const size_t moved_again = tcmalloc_flush_central_caches();
  EXPECT_GT(moved_on, 0u);
  EXPECT_EQ(moved_again, 0u);
}

TEST_F(Flush, TheCallingThreadAlone) {
  const Sleepers threads(4);
  FillCache();
  const size_t before = ThreadCacheBytes();
  const size_t moved = tcmalloc_flush_this_thread_cache();
  const size_t after = ThreadCacheBytes();
  EXPECT_GT(moved, 10000u);
  EXPECT_EQ(after + moved, before);
  EXPECT_GT(after, 0u);
}

TEST_F(Flush, APhaseEndsWithEmptyCaches) {
  tcmalloc::MallocExtension::FlushThreadCaches();
  size_t inside;
  {
    const tcmalloc::ScopedPhase phase;
    FillCache();
    // These are more than a thread's cache has room for.
    std::vector<char*> objects(20'000);
    for (char*& object : objects) object = NewMarked(64, 8);
    for (char* object : objects) FreeMarked(object, 64, 8);
    inside = ThreadCacheBytes();
  }
  const size_t after = ThreadCacheBytes();
  const size_t left = tcmalloc_flush_central_caches();
  EXPECT_GT(inside, 10000u);
  EXPECT_EQ(after, 0u);
  EXPECT_EQ(left, 0u);
}

TEST_F(Flush, KeepsErrno) {
  const Sleepers threads(2);
  FillCache();
  errno = 4321;
  tcmalloc_flush_this_thread_cache();
  tcmalloc_flush_thread_caches();
  tcmalloc_flush_central_caches();
  EXPECT_EQ(errno, 4321);
}

void WorkUnderFlushes(int flushes) {
  const Workers workers(8, kSeed, nullptr);
  for (int done = 0; done < flushes; ++done) {
    Workers::AwaitOperations([] { return false; });
    tcmalloc_flush_thread_caches();
    if (done % 4 == 0) tcmalloc_flush_central_caches();
  }
}

TEST_F(Flush, WhileThreadsWork) { WorkUnderFlushes(200); }

// Runs `body` in a process of its own, which must end with status 0.
template <typename Body>
void ExpectSuccessInChild(Body body) {
  const ChildResult result = RunInChild(body, 60);
  EXPECT_TRUE(result.exited && result.exit_code == 0) << result.err;
}

// Threads at work flush on request; blocked ones keep their caches until they wake.
TEST_F(Flush, WithoutMembarrierThreadsAreAsked) {
  for (const char* const rules : {"membarrier=EPERM", "membarrier=ENOSYS"}) {
    ExpectSuccessInChild([rules] {
      RefuseCalls(rules);
      {
        const Sleepers threads(4);
        FillCache();
        const size_t before = ThreadCacheBytes();
        const size_t moved = tcmalloc_flush_thread_caches();
        const size_t after = ThreadCacheBytes();
        CHECK(moved > 10000);  // the calling thread's
        CHECK(after + moved == before && after > 0);
      }
      WorkUnderFlushes(50);
    });
  }
}

// The setting has the same effect as a kernel without membarrier. (It exists for sandboxes that end
// the process.)
TEST_F(Flush, TheSettingKeepsFromCallingMembarrier) {
  ExpectSuccessInChild([] {
    setenv("TCMALLOC_MEMBARRIER", "false", 1);
    setenv("FLUSH_IN_A_SANDBOX", "1", 1);
    execl("/proc/self/exe", "flush_test", "--gtest_filter=Flush.InASandbox", nullptr);
  });
}

TEST_F(Flush, InASandbox) {
  if (getenv("FLUSH_IN_A_SANDBOX") == nullptr) GTEST_SKIP() << "run by another test";
  RefuseCalls("membarrier=kill");
  WorkUnderFlushes(20);
}

// A child that is forked while its parent's threads work and are being flushed can flush, too.
TEST_F(Flush, InAForkedChild) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!stop.load(std::memory_order_relaxed)) {
        if (t == 0) tcmalloc_flush_thread_caches();
        FillCache();
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    ExpectSuccessInChild([] {
      FillCache();
      tcmalloc_flush_thread_caches();
      CHECK(ThreadCacheBytes() == 0);
      const Sleepers of_the_child(3);
      tcmalloc_flush_thread_caches();
      CHECK(ThreadCacheBytes() == 0);
    });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
