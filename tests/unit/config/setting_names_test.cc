// SPDX-License-Identifier: BSD-3-Clause
// Tests which names of variables belong to the library, and which are misspelt.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "config/settings.h"
#include "config/settings_table.h"

namespace tcmalloc {
namespace {

// The message about a variable that is not a setting.
std::string ComplaintOf(const std::string& name, const std::string& value = "1") {
  char buffer[512];
  TextWriter complaint(buffer, sizeof(buffer));
  Settings settings;
  ReadSetting(name.data(), name.size(), value.c_str(), &settings, &complaint);
  EXPECT_FALSE(complaint.truncated());
  return std::string(complaint.text());
}

std::vector<std::string> Words(const std::string& text, char separator = ' ') {
  std::vector<std::string> words;
  std::istringstream rest(text);
  for (std::string word; std::getline(rest, word, separator);) words.push_back(word);
  return words;
}

TEST(SettingNamesTest, UnknownVariables) {
  for (const char* name : {"TCMALLOC_", "TCMALLOC_X", "TCMALLOC_ARENAS", "TCMALLOC_check",
                           "TCMALLOC_BACKGROUND_THREAD"}) {
    EXPECT_EQ(ComplaintOf(name),
              "tcmalloc: " + std::string(name) + " is ignored: there is no such setting\n");
  }
  EXPECT_EQ(
      ComplaintOf("TCMALLOC_" + std::string(300, 'X')),
      "tcmalloc: TCMALLOC_" + std::string(91, 'X') + " is ignored: there is no such setting\n");
}

TEST(SettingNamesTest, MisspeltNames) {
  const std::pair<const char*, const char*> kMeant[] = {
      {"MALLOCSTAT", "MALLOCSTATS"},
      {"MALLOCSTATS2", "MALLOCSTATS"},
      {"TCMALLOC_CHEK", "TCMALLOC_CHECK"},
      {"TCMALLO_CHECK", "TCMALLOC_CHECK"},
      {"HEAPPROFIL", "HEAPPROFILE"},
      {"MALLOC_STAT", "MALLOCSTATS"},
      {"TCMALLOC_CEHCK", "TCMALLOC_CHECK"},
      {"HEAP_CHECK_DUMP_DIRECTRY", "HEAP_CHECK_DUMP_DIRECTORY"},
      {"TCMALLOC_HEAP_LIMIT", "TCMALLOC_HEAP_LIMIT_MB"},
  };
  for (const auto& [name, meant] : kMeant) {
    EXPECT_EQ(ComplaintOf(name), std::string("tcmalloc: ") + name +
                                     " is ignored: there is no such setting; did you mean " +
                                     meant + "?\n");
  }
  EXPECT_EQ(ComplaintOf("TCMALLOC_NOTHING_LIKE_IT"),
            "tcmalloc: TCMALLOC_NOTHING_LIKE_IT is ignored: there is no such setting\n");
}

// These variables belong to the C library, other allocators, job launchers and programs.
TEST(SettingNamesTest, VariablesOfOthersAreNotMisspelt) {
  for (const std::string& name :
       Words("MALLOC_ARENA_MAX MALLOC_ARENA_TEST MALLOC_CHECK_ MALLOC_CONF MALLOC_OPTIONS "
             "MALLOC_PERTURB_ MALLOC_TOP_PAD_ MALLOC_TRACE MALLOC_TRIM_THRESHOLD_ "
             "MALLOC_MMAP_THRESHOLD_ MALLOC_MMAP_MAX_ MALLOC_TCACHE_COUNT MIMALLOC_SHOW_STATS "
             "JEMALLOC_STATS SLURM_JOBID SLURM_JOB_IDS SLURM_NPROCS SLURM_LOCALID PMI_SIZE "
             "PMI_RANKS PMIX_RANKS PMIX_NAMESPACE OMPI_HOMES OMPI_COMM_WORLD_RANK HEAP_SIZE "
             "HEAPSIZE HEAP_DUMP_PATH HEAP_NEWSIZE HEAPDUMP HEAP HEAP_PROFILE_DIR "
             "HEAP_PROFILER_ENABLED MALLOC PPROF_TMPDIR PPROF_TOOLS PPROF_BINARY_PATH_LIST TERM "
             "TCLLIBPATH TCMD PATH HOME GLIBC_TUNABLES TCMALLOC tcmalloc_check XTCMALLOC_CHECK "
             "MALLOCSTATS222 HEAP_PROFILE_INTERVAL")) {
    EXPECT_EQ(ComplaintOf(name, "nonsense"), "") << name;
  }
}

// A variable for another library with this interface causes no message.
TEST(SettingNamesTest, EveryVariableOfTheInterfaceIsKnown) {
  std::set<std::string> known;
  for (const SettingRow& row : kSettingRows) known.insert(row.setting.name.text);
  for (const IgnoredSettings& group : kIgnoredSettings) {
    for (const std::string& name : Words(group.names, ',')) {
      EXPECT_TRUE(known.insert(name).second) << name << " has an effect";
      for (const char* value : {"", "1", "nonsense", "-5"}) {
        EXPECT_EQ(ComplaintOf(name, value), "") << name;
      }
    }
  }
}

}  // namespace
}  // namespace tcmalloc
