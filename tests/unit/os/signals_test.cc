// SPDX-License-Identifier: BSD-3-Clause
#include "os/signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "testing/sanitizers.h"

namespace tcmalloc {
namespace {

void Nothing(int) {}
void Other(int) {}

TEST(SignalsDeathTest, HandlesOnlySignalsWithoutAHandler) {
  EXPECT_EXIT(
      {
        if (!HandleSignal(SIGUSR1, &Nothing) || !SignalIsHandledBy(SIGUSR1, &Nothing)) _exit(1);
        if (HandleSignal(SIGUSR1, &Other) || SignalIsHandledBy(SIGUSR1, &Other)) _exit(2);
        signal(SIGUSR2, SIG_IGN);
        if (HandleSignal(SIGUSR2, &Nothing)) _exit(3);
        if (HandleSignal(SIGKILL, &Nothing)) _exit(4);
        raise(SIGUSR1);
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, PassedOnToTheDefault) {
  EXPECT_EXIT(
      {
        if (!HandleSignal(SIGTERM, &Nothing)) _exit(1);
        raise(SIGTERM);
        PassSignalOn(SIGTERM, &Nothing);
        _exit(2);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(SignalsDeathTest, PassedOnToTheProgramsHandler) {
#if TESTED_WITH_TSAN
  GTEST_SKIP() << "ThreadSanitizer calls handlers later than the system would";
#endif
  EXPECT_EXIT(
      {
        if (!HandleSignal(SIGTERM, &Nothing)) _exit(1);
        signal(SIGTERM, [](int) { _exit(7); });
        PassSignalOn(SIGTERM, &Nothing);
        _exit(2);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace tcmalloc
