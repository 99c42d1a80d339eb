// SPDX-License-Identifier: BSD-3-Clause
#include "image/traced_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "image/image.h"
#include "image/process.h"
#include "image/stop.h"

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

// The calls of Linux 5.3, which older headers lack.
constexpr long kPidfdOpen = 434;
constexpr long kPidfdSendSignal = 424;

// The program that runs: a descriptor of it, which no later process with its PID can have, and for
// kernels without these the PID. They are written before the handlers are set, which read them.
volatile sig_atomic_t descriptor_of_running = -1;
volatile sig_atomic_t running = 0;

void Forward(int signal) {
  if (descriptor_of_running >= 0) {
    syscall(kPidfdSendSignal, descriptor_of_running, signal, nullptr, 0);
  } else {
    kill(running, signal);
  }
}

// The program handles signals that are meant for it. The keyboard's signals are sent to the whole
// process group; a supervisor's signal is sent to this process, which passes it on.
class SignalsForProgram {
 public:
  explicit SignalsForProgram(pid_t pid) {
    running = pid;
    descriptor_of_running = static_cast<int>(syscall(kPidfdOpen, pid, 0));
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
    if (descriptor_of_running >= 0) close(descriptor_of_running);
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> before_;
};

// Continues a traced process after a stop.
void Continue(pid_t pid, int status) {
  const int event = status >> 16;
  if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
    ptrace(PTRACE_LISTEN, pid, nullptr, nullptr);  // it is stopped like any process
    return;
  }
  const intptr_t signal = event == 0 ? WSTOPSIG(status) : 0;
  ptrace(PTRACE_CONT, pid, nullptr, reinterpret_cast<void*>(signal));
}

// Returns the registers of a thread that stopped because it is about to get SIGSEGV or SIGBUS.
// Nullopt if the cause is not an access of the thread.
std::optional<ThreadRegisters> FaultOf(pid_t thread) {
  siginfo_t info = {};
  if (ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info) != 0) return std::nullopt;
  // Only a fault that the kernel reports with its address counts; for SI_KERNEL the kernel does not
  // report the address.
  if (info.si_code <= 0 || info.si_code == SI_KERNEL) return std::nullopt;
  std::optional<ThreadRegisters> registers = ReadStoppedRegisters(thread);
  if (!registers.has_value()) return std::nullopt;
  registers->signal = {.number = info.si_signo,
                       .code = info.si_code,
                       .address = reinterpret_cast<uint64_t>(info.si_addr)};
  return registers;
}

void HandleStop(pid_t thread, int status, const TraceEvents& events) {
  const int event = status >> 16;
  const int signal = WSTOPSIG(status);
  if (event == PTRACE_EVENT_EXIT && ProcessOf(thread) == thread) {
    events.at_end(thread);
  } else if (event == PTRACE_EVENT_EXEC && events.at_exec) {
    events.at_exec(thread);
  } else if (event == 0 && events.at_fault && (signal == SIGSEGV || signal == SIGBUS)) {
    if (const auto registers = FaultOf(thread)) events.at_fault(ProcessOf(thread), *registers);
  }
}

int WaitForEnd(pid_t pid, const TraceEvents& events) {
  for (int status = 0;;) {
    const pid_t waited = waitpid(-1, &status, __WALL);
    if (waited < 0) {
      if (errno == EINTR) continue;
      throw Failure(fmt::format("waiting for process {}: {}", pid, strerror(errno)));
    }
    if (WIFSTOPPED(status)) {
      HandleStop(waited, status, events);
      Continue(waited, status);
      continue;
    }
    if (WIFSIGNALED(status) && events.killed) events.killed(waited, WTERMSIG(status));
    if (waited == pid) return ExitStatus(status);
  }
}

// Returns the ptrace options: the events besides signals that stop a traced thread, and the new
// threads to trace.
int OptionsFor(Children children, const TraceEvents& events) {
  int options = PTRACE_O_TRACEEXIT;
  if (children == Children::kFollow) options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
  if (events.at_fault) options |= PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
  return options;
}

}  // namespace

int RunTraced(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              Children children, const TraceEvents& events) {
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
  // The handlers are set before the program runs, which may report at once that it is ready for
  // signals.
  const SignalsForProgram signals(pid);
  // If tracing is not permitted, the program runs untraced.
  ptrace(PTRACE_SEIZE, pid, nullptr, OptionsFor(children, events));
  close(go[1]);
  int error = 0;
  const ssize_t n = read(report[0], &error, sizeof(error));
  close(report[0]);
  if (n == sizeof(error)) {
    WaitForEnd(pid, {.at_end = [](pid_t) {}});
    throw Failure(fmt::format("cannot run {}: {}", command[0], strerror(error)));
  }
  return WaitForEnd(pid, events);
}

}  // namespace cli
