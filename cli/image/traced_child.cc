// SPDX-License-Identifier: BSD-3-Clause
#include "image/traced_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "image/image.h"

namespace cli {
namespace {

// In the child: waits for the parent, then becomes the program. Writes errno to `report` on
// failure.
[[noreturn]] void BecomeProgram(const std::vector<std::string>& command,
                                const std::vector<std::string>& environment, int go, int report) {
  char byte;
  while (read(go, &byte, 1) < 0 && errno == EINTR) {
  }
  for (const std::string& assignment : environment) {
    putenv(const_cast<char*>(assignment.c_str()));
  }
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  static_cast<void>(!write(report, &error, sizeof(error)));
  _exit(127);
}

int ExitStatus(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// The program that runs; 0: none. Written before the handlers are set, read by them.
volatile sig_atomic_t running = 0;

void Forward(int signal) { kill(running, signal); }

// The program decides what to do about signals that are meant for it. What the keyboard sends goes
// to the whole group; what a supervisor sends goes to this process, which passes it on.
class SignalsForProgram {
 public:
  explicit SignalsForProgram(pid_t pid) {
    running = pid;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action = {};
      const bool is_of_keyboard = kSignals[i] == SIGINT || kSignals[i] == SIGQUIT;
      action.sa_handler = is_of_keyboard ? SIG_IGN : &Forward;
      sigaction(kSignals[i], &action, &before_[i]);
    }
  }
  SignalsForProgram(const SignalsForProgram&) = delete;
  SignalsForProgram& operator=(const SignalsForProgram&) = delete;
  ~SignalsForProgram() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> before_;
};

// The answer to a stop of a traced process.
void Continue(pid_t pid, int status) {
  const int event = status >> 16;
  if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
    ptrace(PTRACE_LISTEN, pid, nullptr, nullptr);  // it is stopped like any process
    return;
  }
  const intptr_t signal = event == 0 ? WSTOPSIG(status) : 0;
  ptrace(PTRACE_CONT, pid, nullptr, reinterpret_cast<void*>(signal));
}

int WaitForEnd(pid_t pid, const std::function<void(pid_t)>& at_end) {
  for (int status = 0;;) {
    const pid_t waited = waitpid(-1, &status, __WALL);
    if (waited < 0) {
      if (errno == EINTR) continue;
      throw Failure(fmt::format("waiting for process {}: {}", pid, strerror(errno)));
    }
    if (WIFSTOPPED(status)) {
      if (status >> 16 == PTRACE_EVENT_EXIT) at_end(waited);
      Continue(waited, status);
    } else if (waited == pid) {
      return ExitStatus(status);
    }
  }
}

}  // namespace

int RunTraced(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              Children children, const std::function<void(pid_t)>& at_end) {
  int go[2];
  int report[2];
  if (pipe2(go, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
    throw Failure(fmt::format("pipe: {}", strerror(errno)));
  }
  const pid_t pid = fork();
  if (pid < 0) throw Failure(fmt::format("fork: {}", strerror(errno)));
  if (pid == 0) {
    close(go[1]);
    BecomeProgram(command, environment, go[0], report[1]);
  }
  close(report[1]);
  close(go[0]);
  // Before the program runs: it may say at once that it is ready for signals.
  const SignalsForProgram signals(pid);
  // Without permission it runs untraced.
  int events = PTRACE_O_TRACEEXIT;
  if (children == Children::kFollow) events |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
  ptrace(PTRACE_SEIZE, pid, nullptr, events);
  close(go[1]);
  int error = 0;
  const ssize_t n = read(report[0], &error, sizeof(error));
  close(report[0]);
  if (n == sizeof(error)) {
    WaitForEnd(pid, [](pid_t) {});
    throw Failure(fmt::format("cannot run {}: {}", command[0], strerror(error)));
  }
  return WaitForEnd(pid, at_end);
}

}  // namespace cli
