// SPDX-License-Identifier: BSD-3-Clause
#include "os/thread_exit.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <thread>
#include <vector>

#include "testing/in_child.h"

namespace tcmalloc {
namespace {

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

// A sandbox forbids the query of the signal mask.
TEST(ThreadExitTest, MayHavePassedWhereTheQueryIsForbidden) {
  const int result = InChild([] {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {std::size(filter), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 2;
    errno = 1234;
    if (!ThreadExitHook::MayHavePassed()) return 3;
    return errno == 1234 ? 0 : 4;
  });
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace tcmalloc
