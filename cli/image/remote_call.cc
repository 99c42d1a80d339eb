// SPDX-License-Identifier: BSD-3-Clause
#include "image/remote_call.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>
#include <vector>

#include "image/process.h"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;

// Constants and structures that some systems' headers lack.
constexpr int kGetRseqConfiguration = 0x420f;          // from Linux 5.13 on
constexpr int kGetUserDispatchConfiguration = 0x4210;  // from Linux 6.4 on
constexpr int kUserDispatch = 2;                       // a cause of SIGSYS
struct RseqConfiguration {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t signature = 0;
  uint32_t flags = 0;
  uint32_t padding = 0;
};
struct UserDispatchConfiguration {
  uint64_t mode = 0;
  uint64_t selector = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// How long a thread may need to reach its system call. A thread in a frozen control group never
// reaches it.
constexpr auto kCallPatience = std::chrono::milliseconds(500);
// The wait for a stop first polls, since a stop takes microseconds and a sleep takes longer.
constexpr auto kBusyWait = std::chrono::milliseconds(2);

// Returns the status; 0 if the thread was still running at that time.
int AwaitStopUntil(pid_t thread, Clock::time_point end) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    int status = 0;
    const pid_t waited = waitpid(thread, &status, __WALL | WNOHANG);
    if (waited == thread && WIFSTOPPED(status)) return status;
    if (waited == thread || (waited < 0 && errno != EINTR)) {
      throw Failure(fmt::format("thread {} has ended", thread));
    }
    const Clock::time_point now = Clock::now();
    if (now > end) return 0;
    if (now - begin < kBusyWait) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace

int AwaitNextStop(pid_t thread) { return AwaitStopUntil(thread, Clock::time_point::max()); }

#if defined(__x86_64__)

namespace {

int SignalOf(int status) { return status >> 16 == 0 ? WSTOPSIG(status) : 0; }

// PTRACE_O_TRACESYSGOOD marks the stops at the begin and the end of a system call.
bool IsAtCall(int status) { return WSTOPSIG(status) == (SIGTRAP | 0x80); }

constexpr uint64_t kCodeSegment64 = 0x33;  // of 64-bit user code
// The results of a system call inside the kernel when a signal is pending.
constexpr int64_t kFirstRestart = -516;
constexpr int64_t kLastRestart = -512;

void Require(long result, pid_t thread) {
  if (result != 0) throw Failure(fmt::format("thread {} has ended", thread));
}

long Ask(int request, pid_t thread, uintptr_t address, void* data) {
  return ptrace(static_cast<__ptrace_request>(request), thread, reinterpret_cast<void*>(address),
                data);
}

// When a thread sleeps in the kernel, or gets a signal, the kernel aborts its restartable sequence;
// it recognises one by the instruction pointer with which the thread returns to the program. A call
// made from inside a sequence would show the kernel another pointer, so it would not abort the
// sequence: the thread would then continue in the middle of it, although other threads ran in
// between.
bool IsInRestartableSequence(pid_t thread, const user_regs_struct& registers) {
  RseqConfiguration rseq;
  if (Ask(kGetRseqConfiguration, thread, sizeof(rseq), &rseq) < 0) {
    // This kernel does not report the configuration. A thread in a system call is in no sequence,
    // since sequences make none.
    return static_cast<int64_t>(registers.orig_rax) < 0;
  }
  if (rseq.address == 0) return false;
  const auto word_at = [thread](Address address) {
    errno = 0;
    return static_cast<uint64_t>(
        ptrace(PTRACE_PEEKDATA, thread, reinterpret_cast<void*>(address), nullptr));
  };
  // Members of the kernel's struct rseq and struct rseq_cs.
  const Address section = word_at(rseq.address + 8);
  if (errno != 0) return true;
  if (section == 0) return false;
  const Address start = word_at(section + 8);
  const uint64_t bytes = word_at(section + 16);
  return errno != 0 || registers.rip - start < bytes;
}

// The kernel would send SIGSYS instead of making the call.
bool DispatchesCalls(pid_t thread) {
  UserDispatchConfiguration dispatch;
  return Ask(kGetUserDispatchConfiguration, thread, sizeof(dispatch), &dispatch) == 0 &&
         dispatch.mode != 0;
}

bool IsUserDispatch(pid_t thread, int status) {
  siginfo_t info = {};
  return SignalOf(status) == SIGSYS && ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info) == 0 &&
         info.si_code == kUserDispatch;
}

bool IsCallInstruction(pid_t thread, Address address) {
  errno = 0;
  const long word = ptrace(PTRACE_PEEKTEXT, thread, reinterpret_cast<void*>(address), nullptr);
  return errno == 0 && (word & 0xffff) == 0x050f;
}

// Lets a thread continue to its system call. Returns the status of its next stop, which is a
// different one if the thread does not reach the call.
int GoToCall(pid_t thread) {
  // The interrupt that stopped a process which was stopped already (SIGSTOP) stops it once more.
  constexpr int kMostStops = 3;
  for (int i = 0;; ++i) {
    Require(ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr), thread);
    const int status = AwaitStopUntil(thread, Clock::now() + kCallPatience);
    if (status == 0) {
      ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
      return AwaitNextStop(thread);
    }
    if (status >> 16 != PTRACE_EVENT_STOP || i == kMostStops) return status;
  }
}

}  // namespace

std::optional<Address> FindCallInstruction(Image& image) {
  constexpr std::string_view kInstruction = "\x0f\x05";
  constexpr size_t kMostBytes = size_t{64} << 20;
  std::vector<Mapping> mappings = image.Mappings();
  // Most processes have such an instruction in the kernel's own page.
  std::stable_partition(mappings.begin(), mappings.end(),
                        [](const Mapping& mapping) { return mapping.name == "[vdso]"; });
  for (const Mapping& mapping : mappings) {
    if (!mapping.readable || !mapping.executable || mapping.writable || mapping.shared) continue;
    // Code in other pages of the kernel runs only at fixed addresses.
    if (mapping.name != "[vdso]" && (mapping.name.empty() || mapping.name[0] == '[')) continue;
    std::string code(std::min<size_t>(mapping.end - mapping.start, kMostBytes), '\0');
    if (!image.Read(mapping.start, code.data(), code.size())) continue;
    const size_t at = code.find(kInstruction);
    if (at != std::string::npos) return mapping.start + at;
  }
  return std::nullopt;
}

MayCall CanMakeCall(pid_t process, pid_t thread) {
  // A filter may end the process because of a call.
  if (HasSeccompFilter(process, thread) || DispatchesCalls(thread)) return MayCall::kNever;
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return MayCall::kNotNow;
  if (registers.cs != kCodeSegment64) return MayCall::kNever;
  return IsInRestartableSequence(thread, registers) ? MayCall::kNotNow : MayCall::kYes;
}

// The thread has its former registers afterwards, for this reason. It is in PTRACE_EVENT_STOP, on
// its way back to the program, in the kernel's get_signal(). After that function the kernel looks
// at the registers to see whether it must restart a system call that the stop interrupted. The call
// begins and ends in this state:
//
//   PTRACE_EVENT_STOP        the registers are saved and replaced. orig_rax is -1, so that the
//                            kernel restarts nothing.
//   begin of the call or a stop for a signal, also in get_signal(): then the call is given up.
//   PTRACE_EVENT_CLONE only if a child was made end of the call the result is in rax
//   PTRACE_EVENT_STOP by PTRACE_INTERRUPT before the thread continues: the kernel stops it
//                            before it looks for signals and before it returns to the program. This
//                            program restores the saved registers, from which the kernel decides
//                            about the restart. The block with which the kernel continues a
//                            nanosleep is untouched: neither clone nor wait4 has one.
//
// Signals are not blocked for the call, so only registers are changed. With a signal pending, clone
// fails without effect, and the result says that it was not made.
//
// If this program is killed between the first and the last replacement (five stops, about a tenth
// of a millisecond), the kernel lets the thread continue with the replaced registers, after the
// `syscall` instruction, which is wrong. The kernel cannot be made to restore registers then. Three
// things make that unlikely. A process that gets no signals makes the call (worker.h). The calls
// are short for a process of any size (forked_copy.cc). And the system calls in between wait for
// nothing but the thread. A thread that cannot reach its call is interrupted. The wait for a thread
// in the call has no time limit, since the thread would otherwise continue with the wrong
// registers.
RemoteCallResult MakeCall(pid_t thread, const RemoteCall& call, uintptr_t options) {
  // The process may run another program by now.
  if (!IsCallInstruction(thread, call.instruction)) return {};
  user_regs_struct before;
  Require(ptrace(PTRACE_GETREGS, thread, nullptr, &before), thread);
  Require(ptrace(PTRACE_SETOPTIONS, thread, nullptr, PTRACE_O_TRACESYSGOOD | options), thread);
  user_regs_struct registers = before;
  registers.rip = call.instruction;
  registers.rax = static_cast<uint64_t>(call.number);
  registers.orig_rax = ~uint64_t{0};
  registers.rdi = call.arguments[0];
  registers.rsi = call.arguments[1];
  registers.rdx = call.arguments[2];
  registers.r10 = call.arguments[3];
  registers.r8 = call.arguments[4];
  Require(ptrace(PTRACE_SETREGS, thread, nullptr, &registers), thread);

  RemoteCallResult result;
  int status = GoToCall(thread);
  if (!IsAtCall(status)) {
    Require(ptrace(PTRACE_SETREGS, thread, nullptr, &before), thread);
    result.signal = IsUserDispatch(thread, status) ? 0 : SignalOf(status);
    return result;
  }
  do {
    Require(ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr), thread);
    status = AwaitNextStop(thread);
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8)) {
      unsigned long child = 0;
      Require(ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &child), thread);
      result.child = static_cast<pid_t>(child);
    }
  } while (!IsAtCall(status));
  Require(ptrace(PTRACE_GETREGS, thread, nullptr, &registers), thread);
  Require(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), thread);
  Require(ptrace(PTRACE_CONT, thread, nullptr, nullptr), thread);
  status = AwaitNextStop(thread);
  Require(ptrace(PTRACE_SETREGS, thread, nullptr, &before), thread);

  result.signal = SignalOf(status);
  result.value = static_cast<int64_t>(registers.rax);
  result.made = result.value < kFirstRestart || result.value > kLastRestart;
  return result;
}

#else

// On aarch64 a call would do harm. Before the kernel stops a thread for its tracer, it prepares the
// restart of an interrupted system call: it sets the registers to those before that call, and
// forgets the call. Another call cannot restore this state: a sleep would begin anew, and
// sigsuspend() would wait again after the signal that ends it.
std::optional<Address> FindCallInstruction(Image&) { return std::nullopt; }

MayCall CanMakeCall(pid_t, pid_t) { return MayCall::kNever; }

RemoteCallResult MakeCall(pid_t, const RemoteCall&, uintptr_t) {
  throw Failure("system calls in other processes are not supported on this machine");
}

#endif

}  // namespace cli
