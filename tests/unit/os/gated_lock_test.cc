// SPDX-License-Identifier: BSD-3-Clause
#include "os/gated_lock.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "os/lock_threads.h"
#include "testing/in_child.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

// If two threads hold the lock at once, additions are lost, and ThreadSanitizer reports the race.
// If a wake-up is lost, the test hangs.
TEST(GatedLockTest, ExcludesWhileHoldsComeAndGo) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 3000;
  GatedLock locks[2] = {GatedLock(LockRank::kCentral), GatedLock(LockRank::kSpanCache)};
  uint64_t counters[2] = {};
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const SpinLockHolder holder(locks[t % 2]);
        ++counters[t % 2];
        if ((i + t) % 100 == 0) sched_yield();
      }
      --running;
    });
  }
  uint64_t holds = 0;
  while (running > 0) {
    SpinLock::BeginForkHold();
    for (GatedLock& lock : locks) lock.HoldForFork();
    const uint64_t before = counters[0] + counters[1];
    for (GatedLock& lock : locks) {
      const SpinLockHolder holder(lock);
      sched_yield();
    }
    EXPECT_EQ(counters[0] + counters[1], before);
    ++counters[0];
    ++holds;
    SpinLock::EndForkHold();
    sched_yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counters[0] + counters[1], uint64_t{kThreads} * kRounds + holds);
}

// Two threads have the same number when 2^26 threads have started between them.
TEST(GatedLockTest, OthersWaitUntilTheOutermostHoldEnds) {
  for (const uint32_t number : {uint32_t{0}, ThisThreadNumber()}) {
    GatedLock lock(LockRank::kCentral);
    int value = 0;
    SpinLock::BeginForkHold();
    lock.HoldForFork();
    Waiter waiter(lock, [&value] { EXPECT_EQ(value, 2) << "did not wait"; }, number);
    waiter.WaitUntilAsleep();
    // The forking thread passes the gate.
    for (int i = 0; i < 3; ++i) {
      const SpinLockHolder holder(lock);
      EXPECT_TRUE(lock.HeldByThisThread());
      value = 1;
    }
    EXPECT_FALSE(lock.HeldByThisThread());
    SpinLock::BeginForkHold();
    lock.HoldForFork();
    SpinLock::EndForkHold();
    EXPECT_TRUE(lock.HeldForForkByThisThread());
    waiter.WaitUntilAsleep();
    value = 2;
    SpinLock::EndForkHold();
    EXPECT_FALSE(lock.HeldForForkByThisThread());
  }
}

// While the gate is closed, TryLock fails and leaves the lock unchanged: the forking thread must
// not find it taken.
TEST(GatedLockTest, TryLockStaysBeforeTheGate) {
  GatedLock lock(LockRank::kCentral);
  SpinLock::BeginForkHold();
  lock.HoldForFork();
  std::thread([&lock] {
    const bool taken = lock.TryLock();
    EXPECT_FALSE(taken);
    if (taken) lock.Unlock();
  }).join();
  // The forking thread passes the gate.
  const bool taken = lock.TryLock();
  EXPECT_TRUE(taken);
  if (taken) lock.Unlock();
  SpinLock::EndForkHold();
  ASSERT_TRUE(lock.TryLock());
  lock.Unlock();
}

TEST(GatedLockTest, AHoldWaitsForAThreadWithTheSameNumber) {
  GatedLock lock(LockRank::kCentral);
  Holder other(lock, ThisThreadNumber());
  std::atomic<bool> held{false};
  const pid_t id = ThisThreadId();
  std::thread later([&] {
    WaitUntilAsleep(id);
    EXPECT_FALSE(held);
    other.Free();
  });
  SpinLock::BeginForkHold();
  lock.HoldForFork();
  held = true;
  later.join();
  SpinLock::EndForkHold();
}

// A hold writes to no free lock, so no page with locks is copied in parent or child.
TEST(GatedLockTest, AHoldWritesToNoFreeLock) {
  void* const memory =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  GatedLock& lock = *new (memory) GatedLock(LockRank::kCentral);
  ASSERT_EQ(mprotect(memory, 4096, PROT_READ), 0);
  SpinLock::BeginForkHold();
  EXPECT_FALSE(lock.InterruptedByThisThread());
  lock.HoldForFork();
  lock.FreeInChild();
  SpinLock::EndForkHold();
  lock.ReleaseAfterForkInParent();
  lock.ResetAfterForkInChild();
  munmap(memory, 4096);
}

// When the process forked, a thread of the parent had taken the lock and was about to free it.
TEST(GatedLockTest, TheChildFreesLocksOfThreadsThatItLacks) {
  GatedLock used(LockRank::kCentral);
  GatedLock unused(LockRank::kCentral);
  const Holder first(used);
  const Holder second(unused);
  SpinLock::BeginForkHold();
  thread_numbers.NoteFork();
  EXPECT_EQ(InChild([&] {
              used.Lock();
              if (!used.HeldByThisThread()) return 1;
              used.Unlock();
              unused.FreeInChild();
              SpinLock::EndForkHold();
              for (GatedLock* const lock : {&used, &unused}) {
                if (!lock->TryLock()) return 2;
                lock->Unlock();
              }
              return 0;
            }),
            0);
  SpinLock::EndForkHold();
}

// A fork handler in the child has started a thread, which finds the gate closed.
TEST(GatedLockTest, AThreadOfTheChildWaitsToo) {
  GatedLock lock(LockRank::kCentral);
  SpinLock::BeginForkHold();
  lock.HoldForFork();
  thread_numbers.NoteFork();
  EXPECT_EQ(InChild([&] {
              int value = 0;
              Waiter waiter(lock, [&value] { EXPECT_EQ(value, 2) << "did not wait"; });
              waiter.WaitUntilAsleep();
              lock.Lock();
              value = 1;
              lock.Unlock();
              lock.FreeInChild();
              value = 2;
              SpinLock::EndForkHold();
              waiter.Join();
              return testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
  SpinLock::EndForkHold();
}

// A signal handler forks after it interrupted a critical section.
TEST(GatedLockTest, ALockOfAnInterruptedSectionStaysHeld) {
  GatedLock lock(LockRank::kCentral);
  lock.Lock();
  EXPECT_TRUE(lock.InterruptedByThisThread());
  SpinLock::BeginForkHold(false);
  lock.HoldForFork();
  lock.FreeInChild();
  EXPECT_FALSE(SpinLock::ForkHoldIsComplete());
  SpinLock::EndForkHold();
  EXPECT_TRUE(lock.HeldByThisThread());
  lock.Unlock();
  EXPECT_FALSE(lock.HeldByThisThread());
}

TEST(GatedLockTest, AHoldWithADeadlineEnds) {
  GatedLock lock(LockRank::kCentral);
  const Holder other(lock);
  SpinLock::BeginForkHold();
  {
    const SpinLock::HoldDeadline deadline(CoarseMilliseconds() + 20);
    lock.HoldForFork();
    EXPECT_TRUE(deadline.WasMissed());
  }
  SpinLock::EndForkHold();
  EXPECT_FALSE(lock.TryLock());
}

// The lock's state is its first member.
uint32_t StateOf(const GatedLock& lock) {
  uint32_t state;
  memcpy(&state, &lock, sizeof(state));
  return state;
}

// The hold is incomplete: one thread holds a lock in its critical section, another one was about to
// check the gate. Both can happen to the same lock, one after the other.
TEST(GatedLockTest, AChildOfAnIncompleteHoldFreesOnlyWhatIsConsistent) {
  GatedLock missed(LockRank::kCentral);
  GatedLock taken(LockRank::kCentral);
  {
    const Holder other(taken);
    SpinLock::BeginForkHold(false);
    taken.HoldForFork();
    SpinLock::EndForkHold();
  }
  const Holder first(missed);
  SpinLock::BeginForkHold(false);
  missed.HoldForFork();
  SpinLock::EndForkHold();
  const Holder second(taken);
  SpinLock::BeginForkHold(false);
  thread_numbers.NoteFork();
  EXPECT_EQ(InChild([&] {
              const uint32_t before = StateOf(missed);
              for (GatedLock* const lock : {&missed, &taken}) lock->FreeInChild();
              SpinLock::EndForkHold();
              if (!taken.TryLock()) return 2;
              taken.Unlock();
              return StateOf(missed) == before ? 0 : 1;
            }),
            0);
  SpinLock::EndForkHold();
}

TEST(GatedLockDeathTest, DebugBuildsAbortWhenAnotherLockIsHeld) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if constexpr (!kDebugBuild) {
    GTEST_SKIP() << "SKIP: release builds do not check ranks";
  }
  SpinLock outer(LockRank::kRegistry);
  GatedLock lock(LockRank::kCentral);
  const SpinLockHolder holder(outer);
  EXPECT_DEATH(lock.Lock(), "check failed: .*held_ranks");
}

}  // namespace
}  // namespace tcmalloc
