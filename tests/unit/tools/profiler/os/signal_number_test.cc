// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profiler/os/signal_number.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace tcmalloc {
namespace {

TEST(SignalNumberTest, NamesAndNumbers) {
  EXPECT_EQ(SignalNumber("USR1"), SIGUSR1);
  EXPECT_EQ(SignalNumber("SIGUSR2"), SIGUSR2);
  EXPECT_EQ(SignalNumber("TERM"), SIGTERM);
  EXPECT_EQ(SignalNumber("1"), SIGHUP);
  EXPECT_EQ(SignalNumber("15"), SIGTERM);
  EXPECT_EQ(SignalNumber("34"), 34);
  EXPECT_EQ(SignalNumber("64"), 64);
  // These signals cannot be handled, are reserved by the C library, must end the process, or do not
  // exist.
  for (const char* name :
       {"", "KILL", "9", "SEGV", "11", "ABRT", "STOP", "19", "0", "32", "33", "65", "usr1", "SIG",
        "SIGSIGUSR1", "10x", "99999999999999999999", "-1"}) {
    EXPECT_EQ(SignalNumber(name), 0) << name;
  }
}

}  // namespace
}  // namespace tcmalloc
