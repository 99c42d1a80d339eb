// SPDX-License-Identifier: BSD-3-Clause
#include "os/threads.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "testing/run_threads.h"

namespace tcmalloc {
namespace {

TEST(ThreadNumberTest, LivingThreadsHaveDifferentNumbers) {
  constexpr size_t kThreads = 100;
  std::vector<uint32_t> numbers(kThreads);
  std::latch all_have_one(kThreads);
  RunThreads(kThreads, [&](size_t t) {
    numbers[t] = ThisThreadNumber();
    all_have_one.arrive_and_wait();
    EXPECT_EQ(ThisThreadNumber(), numbers[t]);
  });
  numbers.push_back(ThisThreadNumber());
  for (const uint32_t number : numbers) {
    EXPECT_NE(number, 0u);
    EXPECT_LT(number, uint32_t{1} << kThreadNumberBits);
  }
  EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), kThreads + 1);
}

TEST(ThreadNumberTest, ANumberIsGivenAgainAfterAllOthers) {
  // Tests numbers around the last number, and around the last value of the count.
  for (const uint32_t given : {uint32_t{1} << kThreadNumberBits, uint32_t{0}}) {
    ThreadNumbers numbers(given - 100);
    std::set<uint32_t> seen;
    for (int i = 0; i < 200; ++i) {
      const uint32_t number = numbers.New();
      EXPECT_NE(number, 0u);
      EXPECT_LT(number, uint32_t{1} << kThreadNumberBits);
      EXPECT_TRUE(seen.insert(number).second) << number;
    }
  }
}

// The process has one hook, as Init requires.
std::atomic<int> exits{0};
std::atomic<bool> hook_saw_destroyed_object{false};

struct NotesItsEnd {
  bool* ended;
  ~NotesItsEnd() { *ended = true; }
};
thread_local bool object_ended = false;

void OnExit(void* value) {
  ++exits;
  ++*static_cast<std::atomic<int>*>(value);
  hook_saw_destroyed_object = object_ended;
}

void InitOnce() {
  static const bool ok = ThreadExitHook::Init(&OnExit);
  ASSERT_TRUE(ok);
}

TEST(ThreadExitTest, CallsOncePerArmedThreadWithItsValue) {
  ASSERT_NO_FATAL_FAILURE(InitOnce());
  std::vector<std::atomic<int>> calls(10);
  for (std::atomic<int>& mine : calls) {
    std::thread([&mine] {
      errno = 1234;
      EXPECT_TRUE(ThreadExitHook::Arm(&mine));
      EXPECT_EQ(errno, 1234);
      EXPECT_EQ(mine.load(), 0);
    }).join();
    EXPECT_EQ(mine.load(), 1);
  }
}

TEST(ThreadExitTest, IgnoresThreadsThatAreNotArmed) {
  ASSERT_NO_FATAL_FAILURE(InitOnce());
  const int before = exits;
  std::thread([] {}).join();
  std::atomic<int> calls{0};
  // The thread arms the hook and disarms it.
  std::thread([&calls] {
    EXPECT_TRUE(ThreadExitHook::Arm(&calls));
    EXPECT_TRUE(ThreadExitHook::Arm(nullptr));
  }).join();
  EXPECT_EQ(exits, before);
  EXPECT_EQ(calls, 0);
}

TEST(ThreadExitTest, RunsAfterDestructorsOfThreadLocals) {
  ASSERT_NO_FATAL_FAILURE(InitOnce());
  std::atomic<int> calls{0};
  std::thread([&calls] {
    EXPECT_TRUE(ThreadExitHook::Arm(&calls));
    thread_local NotesItsEnd object{&object_ended};
    EXPECT_FALSE(*object.ended);
  }).join();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(hook_saw_destroyed_object);
}

// Blocks or unblocks a signal that the C library's functions leave out.
void ChangeMask(int how, int signal) {
  const uint64_t signals = uint64_t{1} << (signal - 1);
  ASSERT_EQ(syscall(SYS_rt_sigprocmask, how, &signals, nullptr, sizeof(signals)), 0);
}

TEST(ThreadExitTest, DestructorsStillRunInAThreadThatDoesNotEnd) {
  EXPECT_FALSE(ThreadExitHook::MayHavePassed());
  std::thread([] {
    errno = 1234;
    EXPECT_FALSE(ThreadExitHook::MayHavePassed());
    EXPECT_EQ(errno, 1234);
    // Many programs block all signals in all threads except one.
    sigset_t all;
    sigfillset(&all);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &all, nullptr), 0);
    EXPECT_FALSE(ThreadExitHook::MayHavePassed());
  }).join();
}

TEST(ThreadExitTest, DestructorsMayHaveRunWhereTheCLibrarysSignalsAreBlocked) {
  std::thread([] {
    errno = 1234;
    ChangeMask(SIG_BLOCK, 32);
    EXPECT_TRUE(ThreadExitHook::MayHavePassed());
    EXPECT_EQ(errno, 1234);
    // If only the next signal is blocked, the thread need not be ending: the C library's timers use
    // it.
    ChangeMask(SIG_BLOCK, 33);
    ChangeMask(SIG_UNBLOCK, 32);
    EXPECT_FALSE(ThreadExitHook::MayHavePassed());
  }).join();
}

}  // namespace
}  // namespace tcmalloc
