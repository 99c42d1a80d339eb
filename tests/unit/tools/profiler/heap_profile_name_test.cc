// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profiler/heap_profile_name.h"

#include <gtest/gtest.h>
#include <string.h>

#include <string>

namespace tcmalloc {
namespace {

std::string NameOf(std::string_view prefix, uint64_t pid, uint64_t number) {
  char buffer[kHeapProfileNameBytes];
  TextWriter out(buffer, sizeof(buffer));
  WriteHeapProfileName(prefix, pid, number, &out);
  return std::string(out.text());
}

TEST(HeapProfileNameTest, NumbersHaveFourDigitsOrMore) {
  EXPECT_EQ(NameOf("/tmp/app", 0, 1), "/tmp/app.0001.heap");
  EXPECT_EQ(NameOf("/tmp/app", 0, 10), "/tmp/app.0010.heap");
  EXPECT_EQ(NameOf("/tmp/app", 0, 999), "/tmp/app.0999.heap");
  EXPECT_EQ(NameOf("/tmp/app", 0, 1000), "/tmp/app.1000.heap");
  EXPECT_EQ(NameOf("/tmp/app", 0, 123456), "/tmp/app.123456.heap");
  EXPECT_EQ(NameOf("app", 4711, 2), "app_4711.0002.heap");
}

// Tests variables that process managers set, and the resulting prefix and names.
TEST(HeapProfileNameTest, Settings) {
  struct Case {
    const char* pmix;
    bool slurm;
    const char* slurm_process;
    bool open_mpi;
    const char* pmi;
    const char* prefix;
    bool has_pid;
  };
  const Case cases[] = {
      {"", false, "", false, "", "app", false},
      {"3", false, "", false, "", "app.rank-3", false},
      {"3", true, "5", true, "7", "app.rank-3", false},
      {"", true, "5", true, "7", "app.slurmid-5", false},
      {"", true, "", true, "7", "app", true},
      {"", false, "", true, "7", "app", true},
      {"", false, "", false, "7", "app.rank-7", false},
  };
  for (const Case& c : cases) {
    Settings settings;
    strcpy(settings.heap_profile, "app");
    strcpy(settings.pmix_rank, c.pmix);
    settings.in_slurm_job = c.slurm;
    strcpy(settings.slurm_process, c.slurm_process);
    settings.has_open_mpi = c.open_mpi;
    strcpy(settings.pmi_rank, c.pmi);
    char buffer[256];
    TextWriter out(buffer, sizeof(buffer));
    WriteHeapProfilePrefix(settings, &out);
    EXPECT_EQ(out.text(), c.prefix);
    EXPECT_EQ(HeapProfileNamesHavePid(settings), c.has_pid) << c.prefix;
    settings.heap_profile_use_pid = true;
    EXPECT_TRUE(HeapProfileNamesHavePid(settings)) << c.prefix;
  }
}

}  // namespace
}  // namespace tcmalloc
