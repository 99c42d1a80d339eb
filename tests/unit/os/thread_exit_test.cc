// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_exit.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tcmalloc {
namespace {

// One hook for the process, as Init asks.
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

TEST(ThreadExitTest, LeavesThreadsAloneThatDidNotAsk) {
  ASSERT_NO_FATAL_FAILURE(InitOnce());
  const int before = exits;
  std::thread([] {}).join();
  std::atomic<int> calls{0};
  // Armed and disarmed.
  std::thread([&calls] {
    EXPECT_TRUE(ThreadExitHook::Arm(&calls));
    EXPECT_TRUE(ThreadExitHook::Arm(nullptr));
  }).join();
  EXPECT_EQ(exits, before);
  EXPECT_EQ(calls, 0);
}

TEST(ThreadExitTest, TheLastValueCounts) {
  ASSERT_NO_FATAL_FAILURE(InitOnce());
  std::atomic<int> first{0}, second{0};
  std::thread([&] {
    EXPECT_TRUE(ThreadExitHook::Arm(&first));
    EXPECT_TRUE(ThreadExitHook::Arm(&second));
  }).join();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
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

}  // namespace
}  // namespace tcmalloc
