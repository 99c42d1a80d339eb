// SPDX-License-Identifier: BSD-3-Clause
// A thread is woken from outside. The processes are children of the test.
#include "image/sleeper.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "image/process.h"

namespace cli {
namespace {

// A child that calls `sleep` with the read end of a pipe, and then exits with what that returns.
class SleepingProcess {
 public:
  explicit SleepingProcess(int (*sleep)(int)) {
    EXPECT_EQ(pipe(pipe_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(pipe_[1]);
      _exit(sleep(pipe_[0]));
    }
    close(pipe_[0]);
  }
  ~SleepingProcess() {
    EndSleep();
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  SleepingProcess(const SleepingProcess&) = delete;
  SleepingProcess& operator=(const SleepingProcess&) = delete;

  pid_t pid() const { return pid_; }

  // The stack pointer while it is in the system call with that number.
  Address FrameInSystemCall(long number) const {
    for (;;) {
      std::ifstream file("/proc/" + std::to_string(pid_) + "/syscall");
      std::vector<std::string> words;
      for (std::string word; file >> word;) words.push_back(word);
      if (words.size() > 2 && words[0] == std::to_string(number)) {
        return std::stoull(words[words.size() - 2], nullptr, 16);
      }
      std::this_thread::yield();
    }
  }
  // What it waits for happens.
  void EndSleep() {
    if (pipe_[1] >= 0) close(pipe_[1]);
    pipe_[1] = -1;
  }
  int ExitStatus() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = 0;
  int pipe_[2] = {-1, -1};
};

pid_t TracerOf(pid_t pid) {
  const auto info = ReadProcessInfo(pid);
  return info.has_value() ? info->tracer : -1;
}

constexpr Address kAbove = 1024;  // of the stack pointer, where a frame is

// 0 if the wait was interrupted.
int WaitForEvents(int fd) {
  const int epoll = epoll_create1(0);
  epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) return 2;
  return syscall(SYS_epoll_pwait, epoll, &event, 1, -1, nullptr, 0) < 0 && errno == EINTR ? 0 : 1;
}

int WaitWithTracer(int fd) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 2;
  return WaitForEvents(fd);
}

TEST(SleeperTest, AWaitForEventsEnds) {
  SleepingProcess process(&WaitForEvents);
  const Address frame = process.FrameInSystemCall(SYS_epoll_pwait) + kAbove;
  Sleeper sleeper(process.pid());
  EXPECT_FALSE(sleeper.Interrupt(0)) << "no thread has such a stack";
  // On a busy machine the thread needs a while to stop.
  while (!sleeper.Interrupt(frame) && TracerOf(process.pid()) == getpid()) {
  }
  EXPECT_EQ(process.ExitStatus(), 0);
}

TEST(SleeperTest, NamesAnotherTracer) {
  SleepingProcess process(&WaitWithTracer);
  const Address frame = process.FrameInSystemCall(SYS_epoll_pwait) + kAbove;
  Sleeper sleeper(process.pid());
  try {
    sleeper.Interrupt(frame);
    ADD_FAILURE() << "it is traced";
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("is traced by process " + std::to_string(getpid())),
              std::string::npos)
        << failure.what();
  }
}

#ifdef SYS_vfork
// No tracer can stop the parent of a vfork before the child ends.
int WaitForVfork(int fd) {
  const pid_t child = vfork();
  if (child == 0) {
    char byte;
    _exit(read(fd, &byte, 1) == 0 ? 0 : 1);
  }
  int status = 0;
  return waitpid(child, &status, 0) == child ? status : 2;
}

TEST(SleeperTest, AThreadThatDoesNotStopContinuesOnceItHasStopped) {
  SleepingProcess process(&WaitForVfork);
  const Address frame = process.FrameInSystemCall(SYS_vfork) + kAbove;
  Sleeper sleeper(process.pid());
  EXPECT_FALSE(sleeper.Interrupt(frame));
  EXPECT_EQ(TracerOf(process.pid()), getpid());
  // The tracer of the thread is the test itself, and no other one, so this does not throw.
  EXPECT_FALSE(sleeper.Interrupt(frame));
  process.EndSleep();
  while (TracerOf(process.pid()) == getpid()) sleeper.Interrupt(frame);
  EXPECT_EQ(process.ExitStatus(), 0);
}
#endif

}  // namespace
}  // namespace cli
