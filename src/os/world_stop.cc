// SPDX-License-Identifier: BSD-3-Clause
#include "os/world_stop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "base/text_fields.h"
#include "base/tuning.h"
#include "os/errno_keeper.h"
#include "os/mapped_array.h"
#include "os/memory_reader.h"
#include "os/raw_call.h"
#include "os/thread_registers.h"
#include "os/thread_status.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {
namespace {

// As the system has them, whatever the C library's headers say.
constexpr long kDetach = 17;
constexpr long kSeize = 0x4206;
constexpr long kInterrupt = 0x4207;
constexpr int kEventStop = 128;
constexpr int kSetPtracer = 0x59616d61;

using WorldFunction = void (*)(void* context, const WorldStop& world);

int64_t Nanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Ptrace of a thread that is not looked into: 0 or an errno.
int Ptrace(long request, int thread_id, long data) {
  return syscall(SYS_ptrace, request, thread_id, nullptr, data) == 0 ? 0 : errno;
}

// One attempt: what the caller and the task that it starts have in common.
class Attempt {
 public:
  Attempt(VirtualMemory& vm, WorldFunction function, void* context, const OwnRegisters& own)
      : vm_(vm),
        function_(function),
        context_(context),
        process_id_(static_cast<int>(syscall(SYS_getpid))),
        caller_id_(static_cast<int>(syscall(SYS_gettid))),
        own_(own),
        tracees_(vm),
        words_(vm),
        threads_(vm) {}

  enum class Kind : uint8_t {
    kStop,
    kDeclaredStop,  // and the system is told that the task may attach to this process (Yama)
    kCallerOnly,    // the function runs while the others do
  };
  StopResult Make(Kind kind, int64_t patience_ns);

 private:
  // Which of them it is says who goes on:
  enum Phase : uint32_t {
    kPrepared,   // the task waits for the caller
    kStopping,   // the caller waits for the task
    kAwaiting,   // the same, and the task for a thread: it may be killed, since it is in the midst
                 // of nothing
    kStopped,    // the caller waits for the task, however long it takes
    kFailed,     // the task ends without having run the function
    kAbandoned,  // the same, because it took too long
  };

  enum class State : uint8_t { kAsked, kStopped, kEnded };

  struct Tracee {
    int id;
    State state;
    // The signal that it was about to get.
    int signal;
  };

  // The task's stack, with a page below that must not be touched, and above it the one for its
  // handlers.
  struct Stack {
    Mapping mapping;
    bool guarded = false;
    char* top = nullptr;
  };
  bool MapStack(Stack* stack);
  void UnmapStack(const Stack& stack);

  // False when the phase is another one than `from`.
  bool Change(uint32_t from, Phase to) {
    return phase_.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                          std::memory_order_acquire);
  }

  // The caller's.
  void RunTaskAndWait(const Stack& stack, int64_t patience_ns);
  void AwaitTask(int task, int64_t patience_ns);
  void TakeResult(int status);
  // Also sets `*status` to how it ended, if that can be known.
  static bool IsGone(int task, int flags, int* status);
  static int Run(void* attempt);

  // The task's. Those that return a bool: false when the attempt has failed.
  bool RunTask();
  bool StopAndRead();
  StoppedThread Caller() const {
    return {.thread_id = caller_id_,
            .is_caller = true,
            .stack_pointer = own_.stack_pointer,
            .thread_pointer = own_.thread_pointer,
            .registers = own_.words,
            .num_registers = OwnRegisters::kMax};
  }
  bool Fail(StopOutcome outcome, int error) {
    result_.outcome = outcome;
    result_.error = error;
    return false;
  }
  bool StopAll();
  // Sets `*all` to whether the stopped threads and the caller are all threads of the process.
  bool HasAll(bool* all);
  // Calls f(thread id) for each thread; false when f was, or the list cannot be read.
  template <typename F>
  bool ForEachListed(F f);
  bool Ask(int id);
  // Makes the entry of a thread, or changes the one that it has (`known`); null, and the attempt
  // has failed, where there is no memory.
  Tracee* Note(Tracee* known, int id, State state);
  bool AwaitStop(Tracee* tracee) {
    bool stuck = false;
    awaited_.store(tracee->id, std::memory_order_relaxed);
    if (!Await([this, tracee, &stuck] { stuck = !WaitFor(tracee); })) return false;
    return !stuck || Fail(StopOutcome::kNotInTime, ETIMEDOUT);
  }
  // False when it will not stop soon.
  bool WaitFor(Tracee* tracee);
  // Runs `wait`. False where the caller's patience has come to an end, and with it this task's
  // life.
  template <typename F>
  bool Await(F wait) {
    if (!Change(kStopping, kAwaiting)) return false;
    wait();
    return Change(kAwaiting, kStopping);
  }
  bool ReadAllRegisters();
  void LetGo();
  // The entry of a thread; null when there is none.
  Tracee* Find(int id);

  // Constant after construction.
  VirtualMemory& vm_;
  const WorldFunction function_;
  void* const context_;
  const int process_id_;
  const int caller_id_;
  const OwnRegisters& own_;

  // Written by both: each change is a release, each look an acquire. What the other waits on.
  std::atomic<uint32_t> phase_{kPrepared};

  // Written by the caller before the task begins.
  Kind kind_ = Kind::kStop;
  int list_fd_ = -1;
  void* fault_stack_ = nullptr;

  // Written by the task, read by the caller when the task is gone or has been killed, which orders
  // the two: relaxed. The thread that is waited for; the signal that the task has died of.
  std::atomic<int> awaited_{0};
  std::atomic<int> fatal_signal_{0};

  // Written by the task, read by the caller when the task is gone.
  StopResult result_ = {StopOutcome::kTaskDied, 0, 0, 0};
  int64_t begin_ns_ = 0;
  MappedArray<Tracee> tracees_;
  // In the order of the list, which hardly changes: where the next thread may be.
  size_t next_ = 0;
  MappedArray<uintptr_t> words_;
  MappedArray<StoppedThread> threads_;
};

// ---- The caller.

bool Attempt::MapStack(Stack* stack) {
  const size_t page = vm_.hardware_page_size();
  const size_t bytes = (kWorldStopStackBytes + kFaultStackBytes + page - 1) / page * page + page;
  stack->mapping = vm_.Map(bytes, page);
  if (stack->mapping.start == nullptr) return false;
  stack->top = static_cast<char*>(stack->mapping.start) + stack->mapping.bytes - kFaultStackBytes;
  stack->guarded = syscall(SYS_mprotect, stack->mapping.start, page, PROT_NONE) == 0;
  return true;
}

void Attempt::UnmapStack(const Stack& stack) {
  if (stack.guarded) {
    syscall(SYS_mprotect, stack.mapping.start, vm_.hardware_page_size(), PROT_READ | PROT_WRITE);
  }
  // What cannot leave the address space at least gives its memory back.
  if (!vm_.Unmap(stack.mapping.start, stack.mapping.bytes)) {
    static_cast<void>(vm_.Release(stack.mapping.start, stack.mapping.bytes));
  }
}

int Attempt::Run(void* attempt) {
  Attempt& self = *static_cast<Attempt*>(attempt);
  if (!self.RunTask()) {
    // Where the caller has lost its patience, that is the result.
    self.Change(kStopping, kFailed);
    syscall(SYS_futex, &self.phase_, FUTEX_WAKE_PRIVATE, 1);
  }
  return 0;
}

bool Attempt::IsGone(int task, int flags, int* status) {
  // Where there is no such task, another thread of the program's, which waits for every kind of
  // child, got it.
  const long waited = RawCall(SYS_wait4, task, reinterpret_cast<long>(status), __WALL | flags);
  return waited == task || waited == -ECHILD;
}

// From here until the task is gone errno, like all thread-local storage, is the task's.
void Attempt::AwaitTask(int task, int64_t patience_ns) {
  const int64_t deadline = Nanoseconds() + patience_ns;
  phase_.store(kStopping, std::memory_order_release);
  RawCall(SYS_futex, reinterpret_cast<long>(&phase_), FUTEX_WAKE_PRIVATE, 1);
  int status = 0;
  bool gone = false;
  for (;;) {
    const uint32_t phase = phase_.load(std::memory_order_acquire);
    if (phase != kStopping && phase != kAwaiting) break;
    const int64_t left = deadline - Nanoseconds();
    if (left <= 0 && Change(kAwaiting, kAbandoned)) {
      // What it has attached to goes on as if it had never been.
      RawCall(SYS_kill, task, SIGKILL);
      break;
    }
    struct {  // as the system call has it, also where time_t is longer
      long seconds;
      long nanoseconds;
    } pause = {0, static_cast<long>(
                      std::clamp<int64_t>(left, 1'000'000, kTuning.leak_check.look_at_task_ns))};
    RawCall(SYS_futex, reinterpret_cast<long>(&phase_), FUTEX_WAIT_PRIVATE,
            static_cast<long>(phase), reinterpret_cast<long>(&pause));
    gone = IsGone(task, WNOHANG, &status);
    if (gone) break;
  }
  while (!gone) gone = IsGone(task, 0, &status);
  TakeResult(status);
}

// When the task is gone.
void Attempt::TakeResult(int status) {
  int signal = fatal_signal_.load(std::memory_order_relaxed);
  if (signal == 0 && WIFSIGNALED(status)) signal = WTERMSIG(status);
  const uint32_t phase = phase_.load(std::memory_order_acquire);
  if (phase == kAbandoned) {
    result_.outcome = StopOutcome::kNotInTime;
    result_.error = ETIMEDOUT;
  } else if (signal == SIGSYS && phase != kStopped) {
    // A sandbox that does not fail calls but ends who makes them: here only the task has made one.
    result_.outcome = StopOutcome::kForbidden;
    result_.error = ENOSYS;
  } else if (signal != 0) {
    result_.outcome = StopOutcome::kTaskDied;
    result_.error = signal;
  }
  if (result_.outcome == StopOutcome::kNotInTime) {
    result_.thread_id = awaited_.load(std::memory_order_relaxed);
  }
}

void Attempt::RunTaskAndWait(const Stack& stack, int64_t patience_ns) {
  fault_stack_ = stack.top;
  // The task begins with the caller's signal mask: none ever comes to it but SIGKILL, and what it
  // brings upon itself. Nor to the caller: a handler would use the storage that the task uses. The
  // C library's function leaves out its own signals.
  const uint64_t all = ~uint64_t{0};
  uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
  // No CLONE_THREAD: a thread may not attach to others of its process. No CLONE_SIGHAND: the task
  // has handlers of its own. No signal at its end. A debugger of the caller's does not get it.
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED;
  const int task = clone(&Run, stack.top, kFlags, this);
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

StopResult Attempt::Make(Kind kind, int64_t patience_ns) {
  kind_ = kind;
  if (kind != Kind::kCallerOnly) {
    list_fd_ = static_cast<int>(
        syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (list_fd_ < 0) return {StopOutcome::kNoThreadList, errno, 0, 0};
  }
  Stack stack;
  if (MapStack(&stack)) {
    RunTaskAndWait(stack, patience_ns);
    UnmapStack(stack);
  } else {
    result_ = {StopOutcome::kNoMemory, ENOMEM, 0, 0};
  }
  if (list_fd_ >= 0) Close(list_fd_);
  return result_;
}

// ---- The task.

bool Attempt::RunTask() {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  // The caller may have been killed before that.
  if (static_cast<int>(syscall(SYS_getppid)) != process_id_) {
    return Fail(StopOutcome::kForbidden, ESRCH);
  }
  while (phase_.load(std::memory_order_acquire) == kPrepared) {
    syscall(SYS_futex, &phase_, FUTEX_WAIT_PRIVATE, kPrepared, nullptr);
  }
  if (!HandleFaults(fault_stack_, kFaultStackBytes, &fatal_signal_)) {
    return Fail(StopOutcome::kForbidden, errno);
  }
  begin_ns_ = Nanoseconds();
  if (kind_ != Kind::kCallerOnly && !StopAndRead()) {
    LetGo();
    return false;
  }
  if (!Change(kStopping, kStopped)) return false;
  syscall(SYS_futex, &phase_, FUTEX_WAKE_PRIVATE, 1);
  const StoppedThread caller = Caller();
  WorldStop world = {&caller, 1, false, process_id_};
  if (kind_ != Kind::kCallerOnly) world = {threads_.data(), threads_.size(), true, process_id_};
  function_(context_, world);
  LetGo();
  result_ = {StopOutcome::kDone, 0, Nanoseconds() - begin_ns_, 0};
  return true;
}

bool Attempt::StopAndRead() { return StopAll() && ReadAllRegisters(); }

template <typename F>
bool Attempt::ForEachListed(F f) {
  // The system's struct linux_dirent64.
  constexpr size_t kLengthAt = 16;
  constexpr size_t kNameAt = 19;
  alignas(8) char list[8192];
  if (syscall(SYS_lseek, list_fd_, 0, SEEK_SET) != 0) {
    return Fail(StopOutcome::kNoThreadList, errno);
  }
  for (;;) {
    const long n = syscall(SYS_getdents64, list_fd_, list, sizeof(list));
    if (n < 0) return Fail(StopOutcome::kNoThreadList, errno);
    if (n == 0) return true;
    for (long at = 0; at < n;) {
      uint16_t length;
      memcpy(&length, list + at + kLengthAt, sizeof(length));
      const char* const name = list + at + kNameAt;
      std::string_view digits(name, strlen(name));
      uint64_t id;
      if (TakeNumber(&digits, &id) && digits.empty() && !f(static_cast<int>(id))) return false;
      at += length;
    }
  }
}

Attempt::Tracee* Attempt::Find(int id) {
  for (size_t i = 0; i < tracees_.size(); ++i) {
    const size_t at = (next_ + i) % tracees_.size();
    if (tracees_[at].id != id) continue;
    next_ = at + 1;
    return &tracees_[at];
  }
  return nullptr;
}

bool Attempt::StopAll() {
  if (!KnowsRegisters()) return Fail(StopOutcome::kForbidden, ENOSYS);
  // Where the list is that of another namespace of processes, its numbers mean other tasks here.
  bool lists_caller = false;
  const auto look_for_caller = [&](int id) {
    lists_caller |= id == caller_id_;
    return true;
  };
  if (!ForEachListed(look_for_caller)) return false;
  if (!lists_caller) return Fail(StopOutcome::kNoThreadList, ESRCH);
  for (;;) {
    if (!ForEachListed([&](int id) { return id == caller_id_ || Ask(id); })) return false;
    for (Tracee& tracee : tracees_) {
      if (tracee.state == State::kAsked && !AwaitStop(&tracee)) return false;
    }
    bool all;
    if (!HasAll(&all)) return false;
    if (all) return true;
    // Those that are ending take their time.
    if (!Await([] { syscall(SYS_sched_yield); })) return false;
  }
}

// The list alone would not tell: the system cuts it short, without a word, where it meets a thread
// that ends meanwhile, and the one that this has started is behind it. But the system counts
// threads as well. The stopped ones and the caller end as little as they start others, so each of
// them counts. When the number is theirs, there is no other; and who would start one?
bool Attempt::HasAll(bool* all) {
  uint64_t expected = 1;
  for (const Tracee& tracee : tracees_) expected += tracee.state == State::kStopped ? 1 : 0;
  uint64_t threads;
  if (!CountThreads(list_fd_, ThreadFileOf(caller_id_, "/stat").text, &threads)) {
    return Fail(StopOutcome::kNoThreadList, EPROTO);
  }
  *all = threads == expected;
  return true;
}

Attempt::Tracee* Attempt::Note(Tracee* known, int id, State state) {
  if (known != nullptr) {
    *known = {id, state, 0};
    return known;
  }
  if (tracees_.Push({id, state, 0})) return tracees_.end() - 1;
  Fail(StopOutcome::kNoMemory, ENOMEM);
  return nullptr;
}

// Attaches to a thread and asks it to stop, unless that has been done.
bool Attempt::Ask(int id) {
  Tracee* tracee = Find(id);
  if (tracee != nullptr && tracee->state != State::kEnded) return true;
  if (const int error = Ptrace(kSeize, id, 0)) {
    if (error == EPERM) {
      const ThreadStatus status = ReadThreadStatus(list_fd_, ThreadFileOf(id, "/status").text);
      // It is ending. The first thread stays in the list, and counts, until the others have ended.
      if (status.has_ended) {
        return id != process_id_ || Note(tracee, id, State::kStopped) != nullptr;
      }
      return Fail(status.tracer != 0 ? StopOutcome::kTraced : StopOutcome::kForbidden, EPERM);
    }
    // ESRCH: it is ending.
    return error == ESRCH || Fail(StopOutcome::kForbidden, error);
  }
  tracee = Note(tracee, id, State::kAsked);
  if (tracee == nullptr) return false;
  // ESRCH: it is ending, and whoever waits for it will see.
  static_cast<void>(Ptrace(kInterrupt, id, 0));
  // Its number may have become that of a thread of another process since the list was made.
  if (syscall(SYS_tgkill, process_id_, id, 0) != 0 && errno == ESRCH) {
    if (!AwaitStop(tracee)) return false;
    static_cast<void>(Ptrace(kDetach, id, tracee->signal));
    tracee->state = State::kEnded;
  }
  return true;
}

// Not by a call that waits: the task has to see that a thread waits in the kernel itself. The first
// thread of the process, should it end now, could be waited for only when all have.
bool Attempt::WaitFor(Tracee* tracee) {
  const bool may_hang = tracee->id == process_id_;
  int64_t next_look_ns = Nanoseconds() + kTuning.leak_check.stuck_ns;
  for (int round = 0;; ++round) {
    int status = 0;
    const long waited = syscall(SYS_wait4, tracee->id, &status, __WALL | WNOHANG, nullptr);
    if (waited == tracee->id) {
      if (!WIFSTOPPED(status)) {
        tracee->state = State::kEnded;
        return true;
      }
      // Asked to stop, it may have been about to get a signal: then it stands there, and gets that
      // when it goes on.
      tracee->state = State::kStopped;
      tracee->signal = status >> 16 == kEventStop ? 0 : WSTOPSIG(status);
      return true;
    }
    if (waited < 0 && errno != EINTR) {
      tracee->state = State::kEnded;
      return true;
    }
    const bool is_late = Nanoseconds() >= next_look_ns;
    if (may_hang || is_late) {
      const ThreadStatus thread =
          ReadThreadStatus(list_fd_, ThreadFileOf(tracee->id, "/status").text);
      if (may_hang && thread.has_ended) {
        // It stays in the list, and attached to; so it is not asked again.
        tracee->state = State::kStopped;
        return true;
      }
      if (is_late && thread.is_uninterruptible) return false;
    }
    if (is_late) next_look_ns += kTuning.leak_check.stuck_ns;
    if (round < kTuning.leak_check.yields) {
      syscall(SYS_sched_yield);
    } else {
      const struct {  // as the system call has it, also where time_t is longer
        long seconds;
        long nanoseconds;
      } pause = {0, kTuning.leak_check.pause_ns};
      syscall(SYS_nanosleep, &pause, nullptr);
    }
  }
}

bool Attempt::ReadAllRegisters() {
  constexpr size_t kMaxWords = kMaxRegisterBytes / sizeof(uintptr_t);
  const auto fail = [this] { return Fail(StopOutcome::kNoMemory, ENOMEM); };
  if (!threads_.Reserve(tracees_.size() + 1)) return fail();
  if (!threads_.Push(Caller())) return fail();
  for (const Tracee& tracee : tracees_) {
    if (tracee.state != State::kStopped) continue;
    if (words_.capacity() - words_.size() < kMaxWords &&
        !words_.Reserve(2 * words_.size() + kMaxWords)) {
      return fail();
    }
    StoppedRegisters registers;
    if (const int error = ReadRegistersOf(tracee.id, words_.end(), &registers)) {
      // Killed, or the first thread, which has ended.
      if (error == ESRCH) continue;
      return Fail(StopOutcome::kForbidden, error);
    }
    // A task of the system's own, which never runs in the program: it does input and output for it
    // (io_uring), and is listed as a thread.
    if (registers.stack_pointer == 0) continue;
    words_.Extend(registers.num_words);
    const StoppedThread thread = {.thread_id = tracee.id,
                                  .stack_pointer = registers.stack_pointer,
                                  .thread_pointer = registers.thread_pointer,
                                  .num_registers = registers.num_words};
    if (!threads_.Push(thread)) return fail();
  }
  // They stay where they are now.
  const uintptr_t* words = words_.data();
  for (StoppedThread& thread : threads_) {
    if (thread.is_caller) continue;
    thread.registers = words;
    words += thread.num_registers;
  }
  return true;
}

void Attempt::LetGo() {
  for (Tracee& tracee : tracees_) {
    if (tracee.state != State::kStopped) continue;
    static_cast<void>(Ptrace(kDetach, tracee.id, tracee.signal));
    tracee.state = State::kEnded;
  }
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
  // Yama lets only ancestors attach, and whom the process names. Not told before it is necessary:
  // the program may have named someone else, which nobody can ask for.
  if (result.outcome == StopOutcome::kForbidden && result.error == EPERM) {
    result = Attempt(vm, function, context, own).Make(Kind::kDeclaredStop, patience_ns);
  }
  return result;
}

StopResult WithCallerOnly(VirtualMemory& vm, WorldFunction function, void* context) {
  const ErrnoKeeper keeper;
  OwnRegisters own;
  ReadOwnRegisters(&own);
  // It waits for nobody, so there is nothing to lose patience with.
  return Attempt(vm, function, context, own).Make(Attempt::Kind::kCallerOnly, INT64_MAX / 2);
}

bool IsTraced() {
  const ErrnoKeeper keeper;
  const ThreadStatus status = ReadThreadStatus(AT_FDCWD, "/proc/thread-self/status");
  if (!status.has_ended) return status.tracer != 0;
  return ReadThreadStatus(AT_FDCWD, "/proc/self/status").tracer != 0;
}

}  // namespace tcmalloc
