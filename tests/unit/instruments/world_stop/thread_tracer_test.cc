// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/world_stop/thread_tracer.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace tcmalloc {
namespace {

TEST(StopPhaseTest, ResultOfTask) {
  const StopResult none = {StopOutcome::kTaskDied, 0, 0, 0};
  const StopResult done = {StopOutcome::kDone, 0, 1234, 0};
  const StopResult late = {StopOutcome::kNotInTime, ETIMEDOUT, 0, 0};
  struct Case {
    StopResult written;
    TaskEnd end;
    StopOutcome outcome;
    int error;
    int thread;
  };
  const Case cases[] = {
      {done, {StopPhase::kStopped, 0, 9}, StopOutcome::kDone, 0, 0},
      // The task reported the reason for its failure.
      {{StopOutcome::kTraced, EPERM, 0, 0},
       {StopPhase::kFailed, 0, 9},
       StopOutcome::kTraced,
       EPERM,
       0},
      {late, {StopPhase::kFailed, 0, 9}, StopOutcome::kNotInTime, ETIMEDOUT, 9},
      // The caller killed it.
      {none, {StopPhase::kAbandoned, SIGKILL, 9}, StopOutcome::kNotInTime, ETIMEDOUT, 9},
      // A sandbox killed the task before the function ran. If it dies later, the function is the
      // cause.
      {none, {StopPhase::kStopping, SIGSYS, 9}, StopOutcome::kForbidden, ENOSYS, 0},
      {none, {StopPhase::kStopped, SIGSYS, 9}, StopOutcome::kTaskDied, SIGSYS, 0},
      {none, {StopPhase::kStopped, SIGSEGV, 9}, StopOutcome::kTaskDied, SIGSEGV, 0},
      {none, {StopPhase::kStopping, SIGKILL, 9}, StopOutcome::kTaskDied, SIGKILL, 0},
      {none, {StopPhase::kStopping, 0, 9}, StopOutcome::kTaskDied, 0, 0},
  };
  for (const Case& c : cases) {
    const StopResult result = ResultOfTask(c.written, c.end);
    EXPECT_EQ(result.outcome, c.outcome) << c.end.phase << ' ' << c.end.signal;
    EXPECT_EQ(result.error, c.error) << c.end.phase << ' ' << c.end.signal;
    EXPECT_EQ(result.thread_id, c.thread) << c.end.phase << ' ' << c.end.signal;
    EXPECT_EQ(result.pause_ns, c.written.pause_ns);
  }
}

}  // namespace
}  // namespace tcmalloc
