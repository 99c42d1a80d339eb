// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/runner.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <stdexcept>

#include "bench/common/process.h"
#include "bench/micro/patterns.h"
#include "bench/micro/statistics.h"

namespace tcmalloc::bench {
namespace {

// The number is odd, so that the median is one of the slices.
constexpr size_t kSlices = 9;
constexpr size_t kMaxPatterns = 8;
// A child takes well under a second with every known allocator.
constexpr unsigned kTimeoutSeconds = 60;

// ---- The child. It uses static memory only until everything is measured. ----

std::array<std::array<double, kSlices>, kMaxPatterns> child_times;

uint64_t NowNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

bool PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

void TimePattern(const Pattern& pattern, uint64_t seed, uint64_t pairs,
                 std::array<double, kSlices>& times) {
  pattern.set_up(seed);
  pattern.run(pairs);  // Warm-up: caches, branch predictors, the allocator's own growth.
  for (double& time : times) {
    const uint64_t start = NowNanoseconds();
    pattern.run(pairs);
    time = static_cast<double>(NowNanoseconds() - start) / static_cast<double>(pairs);
  }
  pattern.tear_down();
}

// Returns the real path of the file that defines the function of that name for this process.
std::string FileOf(const char* function) {
  Dl_info info;
  if (dladdr(dlsym(RTLD_DEFAULT, function), &info) == 0) return "unknown";
  char* real = realpath(info.dli_fname, nullptr);
  std::string path = real != nullptr ? real : info.dli_fname;
  free(real);
  return path;
}

template <typename Function>
Function Find(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// Each allocator has its own way to report its version.
std::string AllocatorVersion() {
  if (const auto tc_version = Find<const char* (*)(int*, int*, const char**)>("tc_version")) {
    return tc_version(nullptr, nullptr, nullptr);
  }
  if (const auto mallctl = Find<int (*)(const char*, void*, size_t*, void*, size_t)>("mallctl")) {
    const char* version = nullptr;
    size_t size = sizeof(version);
    return mallctl("version", &version, &size, nullptr, 0) == 0 ? version : "unknown";
  }
  if (const auto mi_version = Find<int (*)()>("mi_version")) return std::to_string(mi_version());
  return FileOf("malloc") == CLibrary() ? gnu_get_libc_version() : "unknown";
}

// ---- The parent. ----

// Each line of the child's report is a keyword and its value; the last line is "done".
Sample ParseReport(const std::string& report, const Allocator& allocator,
                   const RunOptions& options) {
  Sample sample;
  sample.times.resize(options.patterns.size());
  std::string malloc_file;
  std::string free_file;
  bool done = false;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string keyword;
    std::getline(words, keyword, ' ');
    if (keyword == "times") {
      size_t index = 0;
      words >> index;
      if (index >= sample.times.size()) break;
      for (double time; words >> time;) sample.times[index].slices.push_back(time);
    } else if (keyword == "malloc") {
      std::getline(words, malloc_file);
    } else if (keyword == "free") {
      std::getline(words, free_file);
    } else if (keyword == "version") {
      std::getline(words, sample.version);
    } else if (keyword == "pinned") {
      words >> sample.pinned;
    } else if (keyword == "done") {
      done = true;
    }
  }
  const bool complete =
      std::all_of(sample.times.begin(), sample.times.end(),
                  [](const auto& times) { return times.slices.size() == kSlices; });
  if (!done || !complete) {
    throw std::runtime_error(allocator.name + ": the child's report is incomplete:\n" + report);
  }
  for (const std::string& file : {malloc_file, free_file}) {
    if (file == allocator.library) continue;
    throw std::runtime_error(allocator.name + ": " + allocator.library +
                             " was to be measured, but malloc is served by " + malloc_file +
                             " and free by " + free_file);
  }
  return sample;
}

}  // namespace

double PatternTimes::nanoseconds() const { return Median(slices); }

double PatternTimes::fastest() const { return *std::min_element(slices.begin(), slices.end()); }

Sample Measure(const Allocator& allocator, const RunOptions& options) {
  std::vector<std::string> command = {ThisProgram(), kChildArgument, std::to_string(options.cpu),
                                      std::to_string(options.seed),
                                      std::to_string(options.divisor)};
  for (const size_t pattern : options.patterns) command.push_back(std::to_string(pattern));
  const ProcessResult result = RunPreloaded(command, allocator.preload, kTimeoutSeconds);
  if (!result.ok()) {
    Sample sample;
    sample.failure = result.failure;
    return sample;
  }
  return ParseReport(result.output, allocator, options);
}

int RunChild(std::span<char* const> arguments) {
  if (arguments.size() < 4 || arguments.size() > 3 + kMaxPatterns) return 2;
  const int cpu = atoi(arguments[0]);
  const uint64_t seed = strtoull(arguments[1], nullptr, 10);
  const uint64_t divisor = strtoull(arguments[2], nullptr, 10);
  const std::span<char* const> patterns = arguments.subspan(3);

  const bool pinned = PinTo(cpu);
  for (size_t i = 0; i < patterns.size(); ++i) {
    const Pattern& pattern = Patterns()[strtoull(patterns[i], nullptr, 10)];
    TimePattern(pattern, seed, pattern.pairs_per_slice / divisor, child_times[i]);
  }

  for (size_t i = 0; i < patterns.size(); ++i) {
    printf("times %zu", i);
    for (const double time : child_times[i]) printf(" %.4f", time);
    printf("\n");
  }
  printf("malloc %s\nfree %s\nversion %s\npinned %d\ndone\n", FileOf("malloc").c_str(),
         FileOf("free").c_str(), AllocatorVersion().c_str(), pinned ? 1 : 0);
  return fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace tcmalloc::bench
