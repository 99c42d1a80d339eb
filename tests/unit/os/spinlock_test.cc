// SPDX-License-Identifier: BSD-3-Clause
#include "os/spinlock.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "os/clock.h"
#include "os/lock_threads.h"
#include "os/threads.h"
#include "testing/run_threads.h"
#include "testing/sanitizers.h"
#include "testing/thread_state.h"

namespace tcmalloc {
namespace {

// There are many more threads than CPUs. Some yield the CPU with the lock held, so that others
// spin, sleep and need a wake-up. If a wake-up is lost, the test hangs. If two threads hold the
// lock at once, additions are lost, and ThreadSanitizer reports the race.
TEST(SpinLockTest, ExcludesWithManyMoreThreadsThanCores) {
  constexpr size_t kThreads = 32;
  constexpr size_t kRounds = 3000;
  SpinLock lock(LockRank::kShard);
  size_t counter = 0;
  int inside = 0;
  size_t tried = 0;
  RunThreads(kThreads, [&](size_t t) {
    for (size_t i = 0; i < kRounds; ++i) {
      if (t % 4 == 3 && lock.TryLock()) {
        EXPECT_EQ(++inside, 1);
        ++counter;
        ++tried;
        --inside;
        lock.Unlock();
        continue;
      }
      const SpinLockHolder holder(lock);
      EXPECT_EQ(++inside, 1);
      ++counter;
      if ((i + t) % 100 == 0) sched_yield();
      --inside;
    }
  });
  EXPECT_EQ(counter, kThreads * kRounds);
  EXPECT_GT(tried, 0u);
}

TEST(SpinLockTest, KnowsWhetherThisThreadHoldsAny) {
  SpinLock outer(LockRank::kRegistry);
  SpinLock inner(LockRank::kMetadata);
  EXPECT_TRUE(SpinLock::NoneHeldByThisThread());
  {
    // A section that a signal handler interrupted may hold a lock of any rank.
    const SpinLockHolder interrupted(inner);
    const SpinLock::RanksSetAside ranks;
    EXPECT_TRUE(SpinLock::NoneHeldByThisThread());
    const SpinLockHolder holder(outer);
  }
  outer.Lock();
  inner.Lock();
  EXPECT_EQ(SpinLock::NoneHeldByThisThread(), !kDebugBuild);
  std::thread([] { EXPECT_TRUE(SpinLock::NoneHeldByThisThread()); }).join();
  // Locks may be freed in any order.
  outer.Unlock();
  EXPECT_EQ(SpinLock::NoneHeldByThisThread(), !kDebugBuild);
  inner.Unlock();
  EXPECT_TRUE(SpinLock::NoneHeldByThisThread());
}

TEST(SpinLockDeathTest, DebugBuildsAbortOnAnInversionOfRanks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if constexpr (!kDebugBuild) {
    GTEST_SKIP() << "SKIP: release builds do not check ranks";
  }
  const struct {
    std::vector<LockRank> held;
    LockRank wanted;
  } kCases[] = {
      {{LockRank::kPageHeap}, LockRank::kRegistry},
      {{LockRank::kMetadata}, LockRank::kPageHeap},
      // A lower rank taken in between does not hide the higher one.
      {{LockRank::kRegistry, LockRank::kMetadata}, LockRank::kPageHeap},
      // Two locks of one rank are refused as well.
      {{LockRank::kPageHeap}, LockRank::kPageHeap},
      // Fork takes leaves in any order.
      {{LockRank::kPageHeap, LockRank::kSamples}, LockRank::kProfile},
  };
  for (const auto& [held, wanted] : kCases) {
    std::deque<SpinLock> locks;
    for (const LockRank rank : held) locks.emplace_back(rank).Lock();
    SpinLock lock(wanted);
    EXPECT_DEATH(lock.Lock(), "check failed: .*held_ranks");
    for (SpinLock& one : locks) one.Unlock();
  }
  // The ranks are checked after TryLock, too.
  SpinLock metadata(LockRank::kMetadata);
  SpinLock page_heap(LockRank::kPageHeap);
  ASSERT_TRUE(metadata.TryLock());
  EXPECT_DEATH(page_heap.Lock(), "check failed: .*held_ranks");
  metadata.Unlock();
}

// A signal ends the system call in which the thread waits, which sets errno.
TEST(SpinLockTest, ASignalDoesNotAcquireTheLockOrChangeErrno) {
  struct sigaction action = {};
  struct sigaction old_action;
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old_action), 0);
  SpinLock lock(LockRank::kShard);
  int value = 0;
  lock.Lock();
  {
    Waiter contender(lock, [&value] {
      EXPECT_EQ(errno, 1234);
      EXPECT_EQ(value, 1) << "did not wait";
    });
    contender.WaitUntilAsleep();
    contender.Interrupt(SIGUSR1);
    contender.Interrupt(SIGUSR1);
    value = 1;
    // Unlock wakes the thread with a system call. The system call cannot fail, and it must not
    // change errno either.
    errno = 5678;
    lock.Unlock();
    EXPECT_EQ(errno, 5678);
  }
  sigaction(SIGUSR1, &old_action, nullptr);
}

TEST(SpinLockForkTest, TheForkingThreadPassesThroughAndOthersWait) {
  SpinLock registry(LockRank::kRegistry);
  SpinLock lock(LockRank::kShard);
  SpinLock second(LockRank::kShard);
  int value = 0;
  registry.HoldForFork();
  SpinLock::BeginForkHold();
  // The thread holds two locks of one rank, which debug builds refuse to any other thread.
  lock.HoldForFork();
  second.HoldForFork();
  value = 1;
  for (int i = 0; i < 3; ++i) {
    lock.Lock();
    lock.Unlock();
    ASSERT_TRUE(lock.TryLock());
    lock.Unlock();
    const SpinLockHolder holder(registry);
    const SpinLockHolder inner(second);
  }
  EXPECT_TRUE(SpinLock::NoneHeldByThisThread());
  {
    std::thread([&lock] { EXPECT_FALSE(lock.TryLock()); }).join();
    Waiter contender(lock, [&value] { EXPECT_EQ(value, 2) << "did not wait"; });
    contender.WaitUntilAsleep();
    // When the forking thread locks and unlocks, waiters still wait.
    lock.Lock();
    lock.Unlock();
    std::thread([&lock] { EXPECT_FALSE(lock.TryLock()); }).join();
    value = 2;
    SpinLock::EndForkHold();
    lock.ReleaseAfterForkInParent();
  }
  second.ReleaseAfterForkInParent();
  registry.ReleaseAfterForkInParent();
  // After the fork they are ordinary locks again.
  ASSERT_TRUE(second.TryLock());
  std::thread([&second] { EXPECT_FALSE(second.TryLock()); }).join();
  second.Unlock();
}

// If two threads hold a lock at once, additions are lost, and ThreadSanitizer reports the race. If
// a wake-up is lost, the test hangs.
TEST(SpinLockForkTest, ExcludesWhileHoldsComeAndGo) {
  constexpr size_t kThreads = 8;
  constexpr size_t kRounds = 3000;
  SpinLock lock(LockRank::kShard);
  size_t counter = 0;
  std::atomic<size_t> running{kThreads};
  std::thread others([&] {
    RunThreads(kThreads, [&](size_t t) {
      for (size_t i = 0; i < kRounds; ++i) {
        const SpinLockHolder holder(lock);
        ++counter;
        if ((i + t) % 100 == 0) sched_yield();
      }
      --running;
    });
  });
  size_t holds = 0;
  for (; running > 0; ++holds) {
    SpinLock::BeginForkHold();
    lock.HoldForFork();
    const size_t before = counter;
    {
      const SpinLockHolder holder(lock);
    }
    sched_yield();
    counter = before + 1;
    SpinLock::EndForkHold();
    lock.ReleaseAfterForkInParent();
    sched_yield();
  }
  others.join();
  EXPECT_EQ(counter, kThreads * kRounds + holds);
}

// A signal handler forks after it interrupted a critical section.
TEST(SpinLockForkTest, ALockOfAnInterruptedSectionStaysHeld) {
  SpinLock registry(LockRank::kRegistry);
  SpinLock lock(LockRank::kShard);
  lock.Lock();
  EXPECT_TRUE(lock.HeldByThisThread());
  EXPECT_TRUE(lock.InterruptedByThisThread());
  EXPECT_FALSE(registry.HeldByThisThread());
  std::thread([&lock] { EXPECT_FALSE(lock.HeldByThisThread()); }).join();
  // The outer lock has a lower rank than the held one, but this is no inversion of ranks.
  ASSERT_TRUE(registry.LockForFork(false));
  SpinLock::BeginForkHold(false);
  registry.MarkHeldForFork();
  lock.HoldForFork();
  EXPECT_FALSE(SpinLock::ForkHoldIsComplete());
  EXPECT_TRUE(registry.HeldForForkByThisThread());
  EXPECT_FALSE(registry.InterruptedByThisThread());
  EXPECT_FALSE(lock.HeldForForkByThisThread());
  SpinLock::EndForkHold();
  lock.ReleaseAfterForkInParent();
  registry.ReleaseAfterForkInParent();
  EXPECT_FALSE(registry.HeldByThisThread());
  EXPECT_TRUE(lock.HeldByThisThread());
  std::thread([&lock] { EXPECT_FALSE(lock.TryLock()); }).join();
  lock.Unlock();
  EXPECT_FALSE(lock.HeldByThisThread());
}

// The other thread may wait for the interrupted section.
TEST(SpinLockForkTest, AThreadThatInterruptedItselfDoesNotWaitForever) {
  SpinLock lock(LockRank::kShard);
  std::optional<Holder> other(lock);
  errno = 77;
  EXPECT_FALSE(lock.LockForFork(false));
  SpinLock::BeginForkHold(false);
  lock.HoldForFork();
  EXPECT_EQ(errno, 77);
  EXPECT_FALSE(lock.HeldByThisThread());
  SpinLock::EndForkHold();
  // Locks that other threads hold are not released.
  lock.ReleaseAfterForkInParent();
  EXPECT_FALSE(lock.TryLock());
  other.reset();
  EXPECT_TRUE(lock.TryLock());
  lock.Unlock();
}

// A hold must end if other threads wait for something that its thread holds.
TEST(SpinLockForkTest, AHoldWithADeadlineEnds) {
  SpinLock unused(LockRank::kShard);
  SpinLock taken(LockRank::kPageHeap);
  std::optional<Holder> other(taken);
  errno = 77;
  EXPECT_FALSE(taken.LockForFork(true, CoarseMilliseconds() + 20));
  SpinLock::BeginForkHold();
  {
    const SpinLock::HoldDeadline deadline(CoarseMilliseconds() + 20);
    unused.HoldForFork();
    EXPECT_FALSE(deadline.WasMissed());
    {
      // The hold of a signal handler that interrupts the first one.
      const SpinLock::HoldDeadline passed(CoarseMilliseconds());
      taken.HoldForFork();
      EXPECT_TRUE(passed.WasMissed());
    }
    EXPECT_FALSE(deadline.WasMissed());
    taken.HoldForFork();
    EXPECT_TRUE(deadline.WasMissed());
  }
  EXPECT_EQ(errno, 77);
  SpinLock::EndForkHold();
  for (SpinLock* lock : {&unused, &taken}) lock->ReleaseAfterForkInParent();
  EXPECT_FALSE(taken.TryLock());
  other.reset();
  for (SpinLock* lock : {&unused, &taken}) {
    EXPECT_TRUE(lock->TryLock());
    lock->Unlock();
  }
}

TEST(SpinLockForkTest, TheOuterHoldStaysImpatientAfterANestedOne) {
  SpinLock lock(LockRank::kShard);
  const Holder other(lock);
  SpinLock::BeginForkHold(false);
  SpinLock::BeginForkHold();
  SpinLock::EndForkHold();
  lock.HoldForFork();
  EXPECT_FALSE(lock.HeldByThisThread());
  SpinLock::EndForkHold();
}

// A handler forks during another fork's hold.
TEST(SpinLockForkTest, ANestedHoldReleasesOnlyItsLocks) {
  SpinLock registry(LockRank::kRegistry);
  SpinLock first(LockRank::kShard);
  SpinLock second(LockRank::kShard);
  registry.HoldForFork();
  SpinLock::BeginForkHold();
  first.HoldForFork();
  {
    ASSERT_TRUE(registry.HeldByThisThread());
    SpinLock::BeginForkHold();
    first.HoldForFork();
    second.HoldForFork();
    EXPECT_TRUE(second.HeldForForkByThisThread());
    SpinLock::EndForkHold();
    first.ReleaseAfterForkInParent();
    second.ReleaseAfterForkInParent();
    registry.ReleaseAfterForkInParent();
  }
  EXPECT_TRUE(SpinLock::ForkHoldIsComplete());
  EXPECT_TRUE(registry.HeldForForkByThisThread());
  EXPECT_TRUE(first.HeldForForkByThisThread());
  EXPECT_FALSE(second.HeldByThisThread());
  second.HoldForFork();
  SpinLock::EndForkHold();
  for (SpinLock* lock : {&registry, &first, &second}) {
    lock->ReleaseAfterForkInParent();
    EXPECT_FALSE(lock->HeldByThisThread());
  }
}

// Two threads have the same number when 2^26 threads have started between them. A hold that mistook
// the lock for one of its own thread would continue without waiting for the other one.
TEST(SpinLockForkTest, APatientHoldWaitsForAThreadWithTheSameNumber) {
  while (!thread_numbers.MayRepeat()) thread_numbers.New();
  SpinLock lock(LockRank::kShard);
  const Holder other(lock, ThisThreadNumber());
  SpinLock::BeginForkHold();
  {
    const SpinLock::HoldDeadline deadline(CoarseMilliseconds() + 20);
    lock.HoldForFork();
    EXPECT_TRUE(deadline.WasMissed());
  }
  SpinLock::EndForkHold();
}

#if defined(__x86_64__) && !TESTED_WITH_ASAN && !TESTED_WITH_TSAN
// Runs a signal handler at each instruction of a function: the CPU traps after each one.

int traps_left = 0;
const std::function<void()>* at_trap = nullptr;

// Calls f(), and handler() in a signal handler before the instruction with that number. False if
// f() has fewer instructions.
bool InterruptAt(int number, const std::function<void()>& f, const std::function<void()>& handler) {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    if (--traps_left == 0) (*at_trap)();
  };
  struct sigaction old_action;
  sigaction(SIGTRAP, &action, &old_action);
  traps_left = number;
  at_trap = &handler;
  constexpr unsigned long long kTrapFlag = 0x100;
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | kTrapFlag);
  f();
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~kTrapFlag);
  sigaction(SIGTRAP, &old_action, nullptr);
  return traps_left <= 0;
}

// The hold of a signal handler, from its begin to its end.
void NestedHold(SpinLock& lock) {
  SpinLock::BeginForkHold();
  lock.HoldForFork();
  SpinLock::EndForkHold();
  lock.ReleaseAfterForkInParent();
}

TEST(SpinLockForkTest, AHoldDoesNotFreeWhatAnotherThreadTookAfterANestedOne) {
  bool interrupted = true;
  for (int number = 1; interrupted; ++number) {
    SpinLock lock(LockRank::kShard);
    std::optional<Holder> other;
    SpinLock::BeginForkHold();
    lock.HoldForFork();
    SpinLock::EndForkHold();
    interrupted = InterruptAt(
        number, [&] { lock.ReleaseAfterForkInParent(); },
        [&] {
          NestedHold(lock);
          other.emplace(lock);
        });
    ASSERT_EQ(lock.TryLock(), !interrupted) << "at instruction " << number;
    if (!interrupted) lock.Unlock();
  }
}

// In the second thread a handler that interrupted a section of the thread forks, too: its hold may
// not wait for others.
TEST(SpinLockForkTest, TheEndOfAHoldKeepsTheStateOfTheNextOne) {
  bool interrupted = true;
  int next_holds = 0;
  for (int number = 1; interrupted; ++number) {
    SpinLock registry(LockRank::kRegistry);
    SpinLock taken(LockRank::kShard);
    const Holder other(taken);
    std::atomic<int> step{0};
    std::optional<std::thread> next;
    const auto begins_next_hold = [&] {
      NestedHold(registry);
      if (registry.HeldByThisThread()) return;  // the first hold continues
      ++next_holds;
      next.emplace([&] {
        EXPECT_TRUE(registry.LockForFork(false));
        SpinLock::BeginForkHold(false);
        registry.MarkHeldForFork();
        step = 1;
        while (step != 2) sched_yield();
        {
          const SpinLock::HoldDeadline deadline(CoarseMilliseconds());
          taken.HoldForFork();
          EXPECT_FALSE(deadline.WasMissed()) << "waited, at instruction " << number;
        }
        EXPECT_FALSE(SpinLock::ForkHoldIsComplete());
        SpinLock::EndForkHold();
        registry.ReleaseAfterForkInParent();
      });
      while (step != 1) sched_yield();
    };
    registry.HoldForFork();
    SpinLock::BeginForkHold();
    interrupted = InterruptAt(number, [] { SpinLock::EndForkHold(); }, begins_next_hold);
    step = 2;
    if (next) next->join();
    registry.ReleaseAfterForkInParent();
    ASSERT_FALSE(registry.HeldByThisThread());
  }
  EXPECT_GT(next_holds, 0);
}
#endif

}  // namespace
}  // namespace tcmalloc
