// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/world_stop.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "instruments/world_stop/memory_reader.h"
#include "instruments/world_stop/thread_state.h"
#include "instruments/world_stop/thread_tracer.h"
#include "os/clock.h"
#include "os/errno_keeper.h"
#include "os/files.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {
namespace {

// How often the caller looks whether its task has died or waits: neither wakes it.
constexpr int64_t kLookAtTaskNs = 20'000'000;

// The kernel's number; the C library's headers may lack it.
constexpr int kSetPtracer = 0x59616d61;

using WorldFunction = void (*)(void* context, const WorldStop& world);

// TaskStack is the stack of a task that the library starts. It has a guard page, the stack, and
// above it the stack of the task's fault handlers (instruments/world_stop/memory_reader.h).
//
// Not thread-safe. Takes no lock but those of `vm`. Cost: two system calls to map, two to unmap.
class TaskStack {
 public:
  // `bytes` is the size of the stack without the two other parts. `vm` outlives the stack.
  TaskStack(VirtualMemory& vm, size_t bytes);
  TaskStack(const TaskStack&) = delete;
  TaskStack& operator=(const TaskStack&) = delete;
  ~TaskStack();

  // False when the OS has no memory.
  bool is_mapped() const { return mapping_.start != nullptr; }
  // The upper end of the stack, and the lower end of the handlers' stack of kFaultStackBytes.
  char* top() const { return top_; }

 private:
  VirtualMemory& vm_;
  Mapping mapping_;
  bool guarded_ = false;
  char* top_ = nullptr;
};

TaskStack::TaskStack(VirtualMemory& vm, size_t bytes) : vm_(vm) {
  const size_t page = vm_.hardware_page_size();
  mapping_ = vm_.Map((bytes + kFaultStackBytes + page - 1) / page * page + page, page);
  if (mapping_.start == nullptr) return;
  top_ = static_cast<char*>(mapping_.start) + mapping_.bytes - kFaultStackBytes;
  guarded_ = syscall(SYS_mprotect, mapping_.start, page, PROT_NONE) == 0;
}

TaskStack::~TaskStack() {
  if (!is_mapped()) return;
  if (guarded_) {
    syscall(SYS_mprotect, mapping_.start, vm_.hardware_page_size(), PROT_READ | PROT_WRITE);
  }
  // If the stack cannot be unmapped, at least its memory is released.
  if (!vm_.Unmap(mapping_.start, mapping_.bytes)) {
    static_cast<void>(vm_.Release(mapping_.start, mapping_.bytes));
  }
}

// One attempt, with the data that the caller shares with its task.
class Attempt {
 public:
  Attempt(VirtualMemory& vm, WorldFunction function, void* context, const OwnRegisters& own)
      : vm_(vm),
        function_(function),
        context_(context),
        process_{static_cast<int>(syscall(SYS_getpid)), static_cast<int>(syscall(SYS_gettid))},
        own_(own),
        tracer_(vm, process_, phase_) {}

  enum class Kind : uint8_t {
    kStop,
    kDeclaredStop,  // also declares to Yama that the task may attach to this process
    kCallerOnly,    // the function runs while the other threads run
  };
  StopResult Make(Kind kind, int64_t patience_ns);

 private:
  // The caller's side.
  void RunTaskAndWait(const TaskStack& stack, int64_t patience_ns);
  void AwaitTask(int task, int64_t patience_ns);
  // Whether the task has ended; if so, `*status` is its wait status, if that is known.
  static bool IsGone(int task, int flags, int* status);

  // The task's side.
  static int Run(void* attempt);
  // False when the attempt has failed.
  bool RunTask();
  bool StopOthers() { return tracer_.StopAll(list_fd_) && tracer_.ReadRegisters(Caller()); }
  bool Fail(StopOutcome outcome, int error) {
    result_.outcome = outcome;
    result_.error = error;
    return false;
  }
  StoppedThread Caller() const {
    return {.thread_id = process_.caller_id,
            .is_caller = true,
            .stack_pointer = own_.stack_pointer,
            .thread_pointer = own_.thread_pointer,
            .registers = own_.words,
            .num_registers = OwnRegisters::kMax};
  }

  // Constant after construction.
  VirtualMemory& vm_;
  const WorldFunction function_;
  void* const context_;
  const ThreadTracer::Process process_;
  const OwnRegisters& own_;

  // Provides its own synchronization.
  StopPhase phase_;

  // Written by the caller before the task begins.
  Kind kind_ = Kind::kStop;
  int list_fd_ = -1;
  void* fault_stack_ = nullptr;

  // Written by the task, read by the caller when the task has ended.
  StopResult result_ = {StopOutcome::kTaskDied, 0, 0, 0};
  ThreadTracer tracer_;
};

// ---- The caller.

StopResult Attempt::Make(Kind kind, int64_t patience_ns) {
  kind_ = kind;
  if (kind != Kind::kCallerOnly) {
    list_fd_ = static_cast<int>(
        syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (list_fd_ < 0) return {StopOutcome::kNoThreadList, errno, 0, 0};
  }
  {
    const TaskStack stack(vm_, kWorldStopStackBytes);
    if (stack.is_mapped()) {
      RunTaskAndWait(stack, patience_ns);
    } else {
      result_ = {StopOutcome::kNoMemory, ENOMEM, 0, 0};
    }
  }
  if (list_fd_ >= 0) Close(list_fd_);
  return result_;
}

void Attempt::RunTaskAndWait(const TaskStack& stack, int64_t patience_ns) {
  fault_stack_ = stack.top();
  // The task inherits a mask that blocks all signals: it receives only SIGKILL and those of its own
  // faults. The caller blocks them as well, since a handler would use the thread-local storage that
  // the task uses. This is a raw call, because the C library's function leaves out its own signals.
  const uint64_t all = ~uint64_t{0};
  uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
  // CLONE_THREAD is not set, since a thread may not attach to others of its process. CLONE_SIGHAND
  // is not set, since the task has its own handlers. CLONE_UNTRACED keeps a debugger of the caller
  // from tracing the task. There is no exit signal.
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED;
  const int task = clone(&Run, stack.top(), kFlags, this);
  if (task < 0) {
    result_ = {StopOutcome::kNoMemory, errno, 0, 0};
  } else {
    const bool declared = kind_ == Kind::kDeclaredStop;
    if (declared) prctl(kSetPtracer, task, 0, 0, 0);
    AwaitTask(task, patience_ns);
    if (declared) prctl(kSetPtracer, 0, 0, 0, 0);
  }
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
}

// From here until the task has ended, it uses errno and all other thread-local storage.
void Attempt::AwaitTask(int task, int64_t patience_ns) {
  const int64_t deadline = Nanoseconds() + patience_ns;
  phase_.Set(StopPhase::kStopping);
  phase_.Wake();
  int status = 0;
  bool gone = false;
  for (;;) {
    const StopPhase::Value phase = phase_.Get();
    if (phase != StopPhase::kStopping && phase != StopPhase::kAwaiting) break;
    const int64_t left = deadline - Nanoseconds();
    if (left <= 0 && phase_.Change(StopPhase::kAwaiting, StopPhase::kAbandoned)) {
      // The kernel resumes the threads to which the task is attached.
      RawCall(SYS_kill, task, SIGKILL);
      break;
    }
    // The task does not wake the caller when it dies or begins to wait, so the caller checks from
    // time to time.
    phase_.WaitWhile(phase, std::clamp<int64_t>(left, 1'000'000, kLookAtTaskNs));
    gone = IsGone(task, WNOHANG, &status);
    if (gone) break;
  }
  while (!gone) gone = IsGone(task, 0, &status);
  int signal = phase_.fatal_signal()->load(std::memory_order_relaxed);
  if (signal == 0 && WIFSIGNALED(status)) signal = WTERMSIG(status);
  result_ = ResultOfTask(result_, {phase_.Get(), signal, phase_.awaited()});
}

bool Attempt::IsGone(int task, int flags, int* status) {
  // ECHILD means that another thread of the program waits for any child, and reaped this one.
  const long waited = RawCall(SYS_wait4, task, reinterpret_cast<long>(status), __WALL | flags);
  return waited == task || waited == -ECHILD;
}

// ---- The task.

int Attempt::Run(void* attempt) {
  Attempt& self = *static_cast<Attempt*>(attempt);
  if (!self.RunTask()) {
    // This fails if the caller's patience has ended; then that is the result.
    self.phase_.Change(StopPhase::kStopping, StopPhase::kFailed);
    self.phase_.Wake();
  }
  return 0;
}

bool Attempt::RunTask() {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  // The caller may have been killed before the call.
  if (static_cast<int>(syscall(SYS_getppid)) != process_.id) {
    return Fail(StopOutcome::kForbidden, ESRCH);
  }
  while (phase_.Get() == StopPhase::kPrepared) phase_.WaitWhile(StopPhase::kPrepared);
  if (!HandleFaults(fault_stack_, kFaultStackBytes, phase_.fatal_signal())) {
    return Fail(StopOutcome::kForbidden, errno);
  }
  const int64_t begin_ns = Nanoseconds();
  if (kind_ != Kind::kCallerOnly && !StopOthers()) {
    Fail(tracer_.outcome(), tracer_.error());
    tracer_.ResumeAll();
    return false;
  }
  if (!phase_.Change(StopPhase::kStopping, StopPhase::kStopped)) return false;
  phase_.Wake();
  const StoppedThread caller = Caller();
  WorldStop world = {&caller, 1, false, process_.id};
  if (kind_ != Kind::kCallerOnly) {
    world = {tracer_.threads().data(), tracer_.threads().size(), true, process_.id};
  }
  function_(context_, world);
  tracer_.ResumeAll();
  result_ = {StopOutcome::kDone, 0, Nanoseconds() - begin_ns, 0};
  return true;
}

}  // namespace

StopResult WithWorldStopped(VirtualMemory& vm, WorldFunction function, void* context,
                            int64_t patience_ms) {
  const ErrnoKeeper keeper;
  OwnRegisters own;
  ReadOwnRegisters(&own);
  if (IsTraced()) return {StopOutcome::kTraced, EPERM, 0, 0};
  constexpr int64_t kNanosecondsPerMs = 1'000'000;
  const int64_t patience_ns = patience_ms * kNanosecondsPerMs;
  using Kind = Attempt::Kind;
  StopResult result = Attempt(vm, function, context, own).Make(Kind::kStop, patience_ns);
  // Yama lets only ancestors attach, and the one task that the process declares. The task is
  // declared only if necessary: the program may have declared another one, which cannot be read and
  // restored.
  if (result.outcome == StopOutcome::kForbidden && result.error == EPERM) {
    result = Attempt(vm, function, context, own).Make(Kind::kDeclaredStop, patience_ns);
  }
  return result;
}

StopResult WithCallerOnly(VirtualMemory& vm, WorldFunction function, void* context) {
  const ErrnoKeeper keeper;
  OwnRegisters own;
  ReadOwnRegisters(&own);
  // The task waits for no thread, so no time limit is needed.
  return Attempt(vm, function, context, own).Make(Attempt::Kind::kCallerOnly, INT64_MAX / 2);
}

bool IsTraced() {
  const ErrnoKeeper keeper;
  const ThreadStatus status = ReadThreadStatus(AT_FDCWD, "/proc/thread-self/status");
  if (!status.has_ended) return status.tracer != 0;
  return ReadThreadStatus(AT_FDCWD, "/proc/self/status").tracer != 0;
}

}  // namespace tcmalloc
