// SPDX-License-Identifier: BSD-3-Clause

// A benchmark program that measures nothing, for the tests of the runner: it reports the figures
// that STANDIN_TIMES gives, one after the other, and the library that really serves malloc.
//
//   STANDIN_TIMES       figures, separated by spaces; with a preloaded allocator STANDIN_PRELOADED
//   STANDIN_COUNTER     a folder in which the program counts its runs, preloaded and not preloaded
//   STANDIN_CRASH_IN    the number, from 0, of the preloaded run that crashes
#include <dlfcn.h>
#include <limits.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

// The number of earlier calls with the same path.
size_t CountUp(const std::string& path) {
  size_t count = 0;
  std::ifstream(path) >> count;
  std::ofstream(path) << count + 1;
  return count;
}

}  // namespace

int main() {
  const bool preloaded = getenv("LD_PRELOAD") != nullptr;
  const size_t run = CountUp(Variable("STANDIN_COUNTER") + (preloaded ? "/preloaded" : "/plain"));
  if (preloaded && Variable("STANDIN_CRASH_IN") == std::to_string(run)) abort();

  std::vector<double> times;
  std::istringstream words(Variable(preloaded ? "STANDIN_PRELOADED" : "STANDIN_TIMES"));
  for (double time; words >> time;) times.push_back(time);
  if (times.empty()) return 3;
  const double time = times[run % times.size()];

  Dl_info info;
  char path[PATH_MAX];
  if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) == 0 || !realpath(info.dli_fname, path))
    return 4;
  const int report = atoi(Variable("BENCH_REPORT_FD").c_str());
  dprintf(
      report,
      "{\"program\": \"standin\", \"args\": [], \"metrics\": [{\"name\": \"time_s\", \"value\": "
      "%g, \"unit\": \"s\", \"better\": \"lower\"}], \"wall_s\": %g, \"user_s\": 0.5, "
      "\"sys_s\": 0.25, \"minor_faults\": 7, \"major_faults\": 0, \"peak_rss_kib\": %d, "
      "\"malloc_library\": \"%s\"}\n",
      time, time, preloaded ? 2000 : 1000, path);
  return 0;
}
