// SPDX-License-Identifier: BSD-3-Clause
#include "image/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>

#include "image/forked_copy.h"
#include "image/image.h"

namespace cli {
namespace {

StrangeChildren own_children;
StrangeChildren* remembered = &own_children;

// The data that the watching thread and the others share.
std::mutex lock;
int undoing = 0;
bool abandoned = false;
pid_t held_child = 0;

// Returns when the other end is closed because that program has ended.
void AwaitEnd(int pipe) {
  char byte;
  while (read(pipe, &byte, 1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void EndAbandoned() { _exit(1); }

void Watch(int pipe) {
  AwaitEnd(pipe);
  const std::lock_guard<std::mutex> guard(lock);
  abandoned = true;
  if (held_child != 0) kill(held_child, SIGKILL);
  if (undoing == 0) EndAbandoned();
}

// Runs in the program that the user started.
[[noreturn]] void WaitFor(pid_t worker) {
  int status = 0;
  while (waitpid(worker, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  fmt::print(stderr, "tcmalloc: the process that did the work was killed by signal {}\n",
             WTERMSIG(status));
  const std::string left = EndChildren(remembered);
  if (!left.empty()) fmt::print(stderr, "tcmalloc: {}\n", left);
  fflush(stderr);
  _exit(1);
}

}  // namespace

void ContinueInWorker() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure(fmt::format("pipe: {}", strerror(errno)));
  void* const shared = mmap(nullptr, sizeof(StrangeChildren), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw Failure(fmt::format("mmap: {}", strerror(errno)));
  remembered = new (shared) StrangeChildren;
  fflush(stdout);
  fflush(stderr);
  // If SIGCHLD were ignored, the worker's status would be lost.
  signal(SIGCHLD, SIG_DFL);
  const pid_t worker = fork();
  if (worker < 0) throw Failure(fmt::format("fork: {}", strerror(errno)));
  if (worker > 0) {
    close(ends[0]);
    WaitFor(worker);
  }
  close(ends[1]);
  setsid();
  // The watching thread must not handle signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(Watch, ends[0]).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StrangeChildren& RememberedChildren() { return *remembered; }

UndoFirst::UndoFirst() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
  const std::lock_guard<std::mutex> guard(lock);
  ++undoing;
}

UndoFirst::~UndoFirst() {
  {
    const std::lock_guard<std::mutex> guard(lock);
    --undoing;
    if (abandoned && undoing == 0) EndAbandoned();
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SetHeldChild(pid_t child) {
  const std::lock_guard<std::mutex> guard(lock);
  held_child = child;
  if (abandoned && child != 0) kill(child, SIGKILL);
}

}  // namespace cli
