// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_tracer.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "instruments/world_stop/thread_state.h"
#include "os/clock.h"

namespace tcmalloc {

void StopPhase::Wake() {
  RawCall(SYS_futex, reinterpret_cast<long>(&value_), FUTEX_WAKE_PRIVATE, 1);
}

void StopPhase::WaitWhile(Value value, int64_t ns) {
  struct {  // the system call's layout, even where time_t is longer
    long seconds;
    long nanoseconds;
  } pause = {0, static_cast<long>(ns)};
  RawCall(SYS_futex, reinterpret_cast<long>(&value_), FUTEX_WAIT_PRIVATE, static_cast<long>(value),
          reinterpret_cast<long>(&pause));
}

void StopPhase::WaitWhile(Value value) {
  RawCall(SYS_futex, reinterpret_cast<long>(&value_), FUTEX_WAIT_PRIVATE, static_cast<long>(value),
          0);
}

StopResult ResultOfTask(const StopResult& written, const TaskEnd& end) {
  StopResult result = written;
  if (end.phase == StopPhase::kAbandoned) {
    result.outcome = StopOutcome::kNotInTime;
    result.error = ETIMEDOUT;
  } else if (end.signal == SIGSYS && end.phase != StopPhase::kStopped) {
    // The sandbox kills the caller of a forbidden system call instead of making the call fail.
    // Before the function runs, only the task makes system calls.
    result.outcome = StopOutcome::kForbidden;
    result.error = ENOSYS;
  } else if (end.signal != 0) {
    result.outcome = StopOutcome::kTaskDied;
    result.error = end.signal;
  }
  if (result.outcome == StopOutcome::kNotInTime) result.thread_id = end.awaited_thread;
  return result;
}

namespace {

// A thread that has not stopped for this long and sleeps in the kernel will not stop soon: the
// attempt ends, so that stopped threads continue. A runnable thread stops as soon as a CPU is free,
// which may take longer.
constexpr int64_t kStuckNs = 20'000'000;
// A wait for a thread to stop yields this many times, since most stop within microseconds, then
// pauses this long each time.
constexpr int kYields = 20;
constexpr long kPauseNs = 50'000;

// The kernel's numbers; the C library's headers may lack them.
constexpr long kDetach = 17;
constexpr long kSeize = 0x4206;
constexpr long kInterrupt = 0x4207;
constexpr int kEventStop = 128;

// A ptrace request that reads nothing from the thread. Returns 0 or an errno.
int Ptrace(long request, int thread_id, long data) {
  return syscall(SYS_ptrace, request, thread_id, nullptr, data) == 0 ? 0 : errno;
}

}  // namespace

// ---- All threads.

bool ThreadTracer::StopAll(int list) {
  list_ = list;
  if (!KnowsRegisters()) return Fail(StopOutcome::kForbidden, ENOSYS);
  if (!ListsCaller()) return false;
  for (;;) {
    if (!AttachAll()) return false;
    for (Tracee& tracee : tracees_) {
      if (tracee.state == State::kAttached && !AwaitStop(&tracee)) return false;
    }
    bool all;
    if (!HasAll(&all)) return false;
    if (all) return true;
    // Threads that are ending need some time.
    if (!phase_.Await(0, [] { syscall(SYS_sched_yield); })) return false;
  }
}

// Whether the list contains the caller: the ids in the list of another process namespace would
// belong to other tasks here.
bool ThreadTracer::ListsCaller() {
  bool lists_caller = false;
  const int error = ForEachThread(list_, [&](int id) {
    lists_caller |= id == process_.caller_id;
    return true;
  });
  if (error != 0) return Fail(StopOutcome::kNoThreadList, error);
  return lists_caller || Fail(StopOutcome::kNoThreadList, ESRCH);
}

bool ThreadTracer::AttachAll() {
  bool attached = true;
  const int error = ForEachThread(list_, [&](int id) {
    attached = id == process_.caller_id || Attach(id);
    return attached;
  });
  if (error != 0) return Fail(StopOutcome::kNoThreadList, error);
  return attached;
}

// The list alone is not enough: the kernel silently cuts it off at a thread that ends during the
// read, and a thread that this one started could be in the missing part. But the kernel also counts
// threads. The stopped threads and the caller cannot end or start threads, so the kernel counts
// them all. When the count equals their number, there is no other thread, and none that could start
// one.
bool ThreadTracer::HasAll(bool* all) {
  uint64_t expected = 1;
  for (const Tracee& tracee : tracees_) expected += tracee.state == State::kStopped ? 1 : 0;
  uint64_t threads;
  if (!CountThreads(list_, ThreadFileOf(process_.caller_id, "/stat").text, &threads)) {
    return Fail(StopOutcome::kNoThreadList, EPROTO);
  }
  *all = threads == expected;
  return true;
}

bool ThreadTracer::ReadRegisters(const StoppedThread& caller) {
  constexpr size_t kMaxWords = kMaxRegisterBytes / sizeof(uintptr_t);
  const auto fail = [this] { return Fail(StopOutcome::kNoMemory, ENOMEM); };
  if (!threads_.Reserve(tracees_.size() + 1)) return fail();
  if (!threads_.Push(caller)) return fail();
  for (const Tracee& tracee : tracees_) {
    if (tracee.state != State::kStopped) continue;
    if (words_.capacity() - words_.size() < kMaxWords &&
        !words_.Reserve(2 * words_.size() + kMaxWords)) {
      return fail();
    }
    StoppedRegisters registers;
    if (const int error = ReadRegistersOf(tracee.id, words_.end(), &registers)) {
      // The thread was killed, or it is the first thread, which has ended.
      if (error == ESRCH) continue;
      return Fail(StopOutcome::kForbidden, error);
    }
    // A kernel task that does input and output for the program (io_uring). It is listed as a thread
    // and never runs the program's code.
    if (registers.stack_pointer == 0) continue;
    words_.Extend(registers.num_words);
    const StoppedThread thread = {.thread_id = tracee.id,
                                  .stack_pointer = registers.stack_pointer,
                                  .thread_pointer = registers.thread_pointer,
                                  .num_registers = registers.num_words};
    if (!threads_.Push(thread)) return fail();
  }
  // The array of words has its final address now: set the pointers into it.
  const uintptr_t* words = words_.data();
  for (StoppedThread& thread : threads_) {
    if (thread.is_caller) continue;
    thread.registers = words;
    words += thread.num_registers;
  }
  return true;
}

void ThreadTracer::ResumeAll() {
  for (Tracee& tracee : tracees_) {
    if (tracee.state != State::kStopped) continue;
    static_cast<void>(Ptrace(kDetach, tracee.id, tracee.signal));
    tracee.state = State::kEnded;
  }
}

// ---- One thread.

ThreadTracer::Tracee* ThreadTracer::Find(int id) {
  for (size_t i = 0; i < tracees_.size(); ++i) {
    const size_t at = (next_ + i) % tracees_.size();
    if (tracees_[at].id != id) continue;
    next_ = at + 1;
    return &tracees_[at];
  }
  return nullptr;
}

ThreadTracer::Tracee* ThreadTracer::Note(Tracee* known, int id, State state) {
  if (known != nullptr) {
    *known = {id, state, 0};
    return known;
  }
  if (tracees_.Push({id, state, 0})) return tracees_.end() - 1;
  Fail(StopOutcome::kNoMemory, ENOMEM);
  return nullptr;
}

// Attaches to a thread and asks it to stop, unless that was done before.
bool ThreadTracer::Attach(int id) {
  Tracee* tracee = Find(id);
  if (tracee != nullptr && tracee->state != State::kEnded) return true;
  if (const int error = Ptrace(kSeize, id, 0)) return AttachFailed(tracee, id, error);
  tracee = Note(tracee, id, State::kAttached);
  if (tracee == nullptr) return false;
  // ESRCH means that the thread is ending; WaitFor will see that.
  static_cast<void>(Ptrace(kInterrupt, id, 0));
  // The id may have become that of another process's thread since the list was made.
  if (syscall(SYS_tgkill, process_.id, id, 0) != 0 && errno == ESRCH) {
    if (!AwaitStop(tracee)) return false;
    static_cast<void>(Ptrace(kDetach, id, tracee->signal));
    tracee->state = State::kEnded;
  }
  return true;
}

// Called when the tracer could not attach to the thread. False unless the thread is ending.
bool ThreadTracer::AttachFailed(Tracee* tracee, int id, int error) {
  if (error != EPERM) return error == ESRCH || Fail(StopOutcome::kForbidden, error);
  const ThreadStatus status = ReadThreadStatus(list_, ThreadFileOf(id, "/status").text);
  if (!status.has_ended) {
    return Fail(status.tracer != 0 ? StopOutcome::kTraced : StopOutcome::kForbidden, EPERM);
  }
  // The first thread stays in the list, and is counted, until the others have ended.
  return id != process_.id || Note(tracee, id, State::kStopped) != nullptr;
}

bool ThreadTracer::AwaitStop(Tracee* tracee) {
  bool stuck = false;
  if (!phase_.Await(tracee->id, [&] { stuck = !WaitFor(tracee); })) return false;
  return !stuck || Fail(StopOutcome::kNotInTime, ETIMEDOUT);
}

// Polls, because the task itself must notice that a thread sleeps in the kernel, and because wait4
// returns the first thread of the process, if it ends now, only after all others have ended.
bool ThreadTracer::WaitFor(Tracee* tracee) {
  const bool may_hang = tracee->id == process_.id;
  int64_t next_look_ns = Nanoseconds() + kStuckNs;
  for (int round = 0;; ++round) {
    int status = 0;
    const long waited = syscall(SYS_wait4, tracee->id, &status, __WALL | WNOHANG, nullptr);
    if (waited == tracee->id) {
      if (!WIFSTOPPED(status)) {
        tracee->state = State::kEnded;
        return true;
      }
      // A thread that stopped because it was about to receive a signal receives it when it is
      // resumed.
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
      const ThreadStatus thread = ReadThreadStatus(list_, ThreadFileOf(tracee->id, "/status").text);
      if (may_hang && thread.has_ended) {
        // The thread stays in the list and stays traced, so the tracer does not attach to it again.
        tracee->state = State::kStopped;
        return true;
      }
      if (is_late && thread.is_uninterruptible) return false;
    }
    if (is_late) next_look_ns += kStuckNs;
    if (round < kYields) {
      syscall(SYS_sched_yield);
    } else {
      const struct {  // the system call's layout, even where time_t is longer
        long seconds;
        long nanoseconds;
      } pause = {0, kPauseNs};
      syscall(SYS_nanosleep, &pause, nullptr);
    }
  }
}

}  // namespace tcmalloc
