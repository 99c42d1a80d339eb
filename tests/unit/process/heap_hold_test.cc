// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "malloc/tc_names.h"
#include "os/c_library.h"
#include "os/clock.h"
#include "os/spinlock.h"
#include "os/threads.h"
#include "process/fork.h"
#include "process/heap.h"
#include "testing/in_child.h"
#include "testing/run_threads.h"
#include "testing/thread_state.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

// Each holder increments counters that no other thread changes meanwhile.
TEST(HeapHoldTest, HoldersAndForksWaitForOneAnother) {
  InstallForkHandlers();
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  int held = 0;  // guarded by the hold
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        HoldHeap();
        const int before = held;
        tc_free(tc_malloc(1000));
        std::this_thread::yield();
        held = before + 1;
        ReleaseHeap();
      }
    });
  }
  std::thread allocates([&] {
    while (!stop) {
      std::vector<void*> objects;
      for (int i = 0; i < 1000; ++i) objects.push_back(tc_malloc(static_cast<size_t>(i) * 50));
      for (void* const p : objects) tc_free(p);
    }
  });
  int good_children = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      void* const p = tc_malloc(5000);
      tc_free(p);
      HoldHeap();
      ReleaseHeap();
      _exit(p != nullptr && !HoldsHeap() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    good_children += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  allocates.join();
  EXPECT_EQ(good_children, 20);
  EXPECT_EQ(held, kThreads * kRounds);
  GlobalHeap().CheckInvariants();
}

TEST(HeapHoldTest, TheHolderPassesThroughItsLocks) {
  EnsureHeap();
  HoldHeap();
  std::thread([] { EXPECT_FALSE(HoldsHeap()); }).join();
  // Uses all kinds of locks.
  for (const size_t size : {100, 10 << 20}) tc_free(tc_malloc(size));
  TotalsOf(GlobalHeap().registry);
  GlobalHeap().page_heap.GetStats();
  ReleaseHeap();
  GlobalHeap().CheckInvariants();
}

// Two threads have the same number when 2^26 threads have started between them.
TEST(HeapHoldTest, HoldersWithTheSameNumberWaitForOneAnother) {
  EnsureHeap();
  while (!thread_numbers.MayRepeat()) thread_numbers.New();
  const uint32_t number = ThisThreadNumber();
  int held = 0;  // guarded by the hold
  std::atomic<int> holds{0};
  RunThreads(4, [&](size_t) {
    this_thread_number = number;
    for (int i = 0; i < 200; ++i) {
      if (HoldHeap()) {
        const int before = held;
        tc_free(tc_malloc(1000));
        std::this_thread::yield();
        held = before + 1;
        ++holds;
      }
      ReleaseHeap();
    }
  });
  EXPECT_EQ(held, holds);
  GlobalHeap().CheckInvariants();
}

// The access section belongs to another thread and is not an interrupted one of the holder, so the
// hold is complete.
TEST(HeapHoldTest, AHolderWaitsForASectionOfAThreadWithTheSameNumber) {
  EnsureHeap();
  while (!thread_numbers.MayRepeat()) thread_numbers.New();
  const uint32_t number = ThisThreadNumber();
  const pid_t holder = ThisThreadId();
  std::atomic<bool> locked{false};
  std::thread other([&] {
    this_thread_number = number;
    const SpinLockHolder section(GlobalHeap().holes.lock());
    locked = true;
    WaitUntilAsleep(holder);
  });
  while (!locked) std::this_thread::yield();
  const int64_t start_us = Microseconds();
  HoldHeap();
  const int64_t waited_us = Microseconds() - start_us;
  EXPECT_TRUE(HoldIsComplete() || waited_us >= 1000 * kForkTimeoutMs);
  ReleaseHeap();
  other.join();
}

TEST(HeapHoldTest, AHoldThatMissesItsDeadlineHoldsNothing) {
  EnsureHeap();
  SpinLock& lock = GlobalHeap().holes.lock();
  lock.Lock();
  std::thread([] {
    EXPECT_EQ(TryHoldHeap(CoarseMilliseconds() + 20), std::nullopt);
    EXPECT_FALSE(HoldsHeap());
    // The other locks are free.
    tc_free(tc_malloc(1000));
    tc_free(tc_malloc(10 << 20));
  }).join();
  lock.Unlock();
  EXPECT_EQ(TryHoldHeap(CoarseMilliseconds() + 20), true);
  EXPECT_TRUE(HoldsHeap());
  ReleaseHeap();
  EXPECT_FALSE(HoldsHeap());
  GlobalHeap().CheckInvariants();
}

// This thread forks with a lock of the heap, as a signal handler does that interrupted a critical
// section. In fork it waits for the list of files, which the other fork holds.
TEST(HeapHoldTest, AForkThatWaitsForTheHeapLetsGoOfTheListOfFiles) {
  InstallForkHandlers();
  SpinLock& lock = GlobalHeap().holes.lock();
  lock.Lock();
  std::thread forks = StartUntilAsleep([] {
    EXPECT_EQ(InChild([] {
                void* const p = tc_malloc(10 << 20);
                tc_free(p);
                return p != nullptr && HoldHeap() && HoldIsComplete() ? 0 : 1;
              }),
              0);
  });
  EXPECT_EQ(InChild([] { return 0; }), 0);
  lock.Unlock();
  forks.join();
  GlobalHeap().CheckInvariants();
}

// The other fork holds a mutex of a fork handler of the program, and cannot free it.
pthread_mutex_t mutex_of_program = PTHREAD_MUTEX_INITIALIZER;
void LockMutexOfProgram() { pthread_mutex_lock(&mutex_of_program); }
void UnlockMutexOfProgram() { pthread_mutex_unlock(&mutex_of_program); }

TEST(HeapHoldTest, AForkThatWaitsForTheHeapForSecondsGoesOnWithoutIt) {
  CLibraryMalloc::Resolve();
  InstallForkHandlers();
  WatchForStrayChildren();
  ASSERT_EQ(pthread_atfork(&LockMutexOfProgram, &UnlockMutexOfProgram, &UnlockMutexOfProgram), 0);
  SpinLock& lock = GlobalHeap().holes.lock();
  lock.Lock();
  // The thread lives on until this one has forked: ThreadSanitizer would see a thread in the child
  // that has ended and that nobody joins.
  std::atomic<bool> both_forked{false};
  std::thread forks = StartUntilAsleep([&both_forked] {
    EXPECT_EQ(InChild([] {
                void* const p = tc_malloc(10 << 20);
                tc_free(p);
                return p != nullptr && InStrayChild() == CLibraryMalloc::CanAllocate() ? 0 : 1;
              }),
              0);
    both_forked.wait(false);
  });
  EXPECT_EQ(InChild([] { return 0; }), 0);
  both_forked = true;
  both_forked.notify_one();
  lock.Unlock();
  forks.join();
  GlobalHeap().CheckInvariants();
}

// Fork handlers of other folders run between the heap's locks. When the table of handlers is full,
// another one is refused with a message.
int prepared = 0;
int released = 0;

TEST(HeapHoldTest, HandlersOfOthersAreCalledAndTooManyRefused) {
  EnsureHeap();
  static constexpr ForkHandlers kCounting = {
      [] {
        EXPECT_TRUE(HoldsHeap());
        ++prepared;
      },
      [] { ++released; },
      [] {},
  };
  int added = 0;
  testing::internal::CaptureStderr();
  while (AddForkHandlers(&kCounting)) ++added;
  const std::string complaint = testing::internal::GetCapturedStderr();
  EXPECT_GE(added, 4);
  EXPECT_LE(added, 8);
  EXPECT_NE(complaint.find("too many"), std::string::npos) << complaint;
  HoldHeap();
  EXPECT_EQ(prepared, added);
  EXPECT_EQ(released, 0);
  ReleaseHeap();
  EXPECT_EQ(released, added);
}

}  // namespace
}  // namespace tcmalloc
