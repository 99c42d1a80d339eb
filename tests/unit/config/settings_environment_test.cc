// SPDX-License-Identifier: BSD-3-Clause
// Reads the settings of a process from its environment.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "config/settings.h"

namespace tcmalloc {
namespace {

// Each mistake in a variable of the environment causes one line. Nothing else is written.
TEST(SettingsDeathTest, ReadsTheEnvironment) {
  EXPECT_EXIT(
      {
        setenv("TCMALLOC_CHECK", "yes", 1);
        setenv("MALLOCSTATS", "7", 1);
        setenv("TCMALLOC_RELEASE_RATE", "2.5", 1);
        setenv("TCMALLOC_SKIP_MMAP", "1", 1);
        setenv("TCMALLOC_TRACE", "whatever", 1);
        Settings settings;
        ReadSettings(&settings);
        _exit(settings.check && settings.malloc_stats == 0 && settings.release_rate == 2.5 &&
                      settings.skip_mmap && !settings.skip_sbrk
                  ? 0
                  : 1);
      },
      testing::ExitedWithCode(0),
      testing::Eq("tcmalloc: MALLOCSTATS=7 is ignored: expected integer from 0 to 2; using 0\n"));
}

TEST(SettingsDeathTest, HintsAreOneLineForEachVariable) {
  EXPECT_EXIT(
      {
        clearenv();
        setenv("TCMALLOC_HINTS", "1", 1);
        setenv("MALLOC_CONF", "narenas:1", 1);
        setenv("TCMALLOC_HARD_LIMIT", "1G", 1);
        setenv("TCMALLOC_RELEASE_RATE", "fast", 1);
        setenv("TCMALLOC_SOFT_LIMIT", "512", 1);
        setenv("TCMALLOC_TRACE", "1", 1);
        Settings settings;
        ReadSettings(&settings);
        _exit(0);
      },
      testing::ExitedWithCode(0),
      testing::Eq(
          "tcmalloc: TCMALLOC_HARD_LIMIT is ignored: there is no such setting; did you mean "
          "TCMALLOC_HEAP_LIMIT_MB?\n"
          "tcmalloc: TCMALLOC_RELEASE_RATE=fast is ignored: expected number from 0 to 1000; using "
          "1.0\n"
          "tcmalloc: hint: MALLOC_CONF is for jemalloc and has no effect here: see "
          "docs/migrating-from-jemalloc.md\n"
          "tcmalloc: hint: TCMALLOC_SOFT_LIMIT=512 is 512 bytes: 512M would be 512 MiB\n"
          "tcmalloc: hint: TCMALLOC_TRACE has no effect here: see docs/settings.md\n"));
}

TEST(SettingsDeathTest, WhatIsGivenIsNoted) {
  EXPECT_EXIT(
      {
        clearenv();
        setenv("TCMALLOC_RELEASE_RATE", "1.0", 1);  // is the default
        setenv("TCMALLOC_HUGEPAGES", "many", 1);    // is ignored
        setenv("TCMALLOC_SKIP_SBRK", "yes", 1);
        setenv("TCMALLOC_PROFILE", "/tmp/a\n,peak", 1);
        setenv("TCMALLOC_STATS_EVERY", "10s", 1);
        Settings settings;
        ReadSettings(&settings);
        _exit(write(STDERR_FILENO, settings.given, strlen(settings.given)) > 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "\nTCMALLOC_SKIP_SBRK=yes TCMALLOC_PROFILE=/tmp/a.,peak TCMALLOC_STATS_EVERY=10s$");
}

// The variables have every length. Each variable that is noted is complete, and "..." marks that
// some are missing.
TEST(SettingsDeathTest, MoreIsGivenThanIsNoted) {
  for (size_t length = 1; length <= 90; ++length) {
    EXPECT_EXIT(
        {
          clearenv();
          const std::string text(length, 'x');
          for (const char* name :
               {"TCMALLOC_PROFILE", "TCMALLOC_PRESSURE", "TCMALLOC_STATS_EVERY", "HEAPPROFILE",
                "PPROF_PATH", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
            setenv(name, text.c_str(), 1);
          }
          Settings settings;
          ReadSettings(&settings);
          const std::string given = settings.given;
          const bool all = given.find("SLURM_PROCID=" + text) != std::string::npos;
          const bool marked = given.size() > 4 && given.substr(given.size() - 4) == " ...";
          _exit(given.size() < sizeof(settings.given) && all != marked ? 0 : 1);
        },
        testing::ExitedWithCode(0), "")
        << length;
  }
}

}  // namespace
}  // namespace tcmalloc
