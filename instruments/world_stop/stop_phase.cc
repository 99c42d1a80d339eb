// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/stop_phase.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

#include "instruments/world_stop/raw_call.h"

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

}  // namespace tcmalloc
