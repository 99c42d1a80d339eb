// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <string_view>

namespace tcmalloc::bench {
namespace {

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string Kernel() {
  utsname names;
  if (uname(&names) != 0) return "unknown";
  return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

std::string UtcTime() {
  const time_t now = time(nullptr);
  tm parts;
  gmtime_r(&now, &parts);
  std::array<char, 32> text;
  return std::string(text.data(), strftime(text.data(), text.size(), "%FT%TZ", &parts));
}

std::string AllocatorVariables() {
  constexpr std::string_view kPrefixes[] = {
      "TCMALLOC_",       "MALLOC_",      "MIMALLOC_", "JEMALLOC_",
      "GLIBC_TUNABLES=", "HEAPPROFILE=", "HEAPCHECK="};
  std::string found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    for (const std::string_view prefix : kPrefixes) {
      if (!std::string_view(*entry).starts_with(prefix)) continue;
      if (!found.empty()) found += ' ';
      found += *entry;
    }
  }
  return found.empty() ? "none" : found;
}

}  // namespace

std::vector<Fact> DescribeMachine() {
  return {
      {"time", UtcTime()},
      {"processor", ProcessorModel()},
      {"processors", std::to_string(sysconf(_SC_NPROCESSORS_ONLN))},
      {"kernel", Kernel()},
      {"hugepages", FirstLine("/sys/kernel/mm/transparent_hugepage/enabled")},
      {"governor", FirstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
      {"load", FirstLine("/proc/loadavg")},
      {"compiler", __VERSION__},
      {"build", TCMALLOC_BENCH_BUILD_TYPE},
      {"allocator variables", AllocatorVariables()},
  };
}

}  // namespace tcmalloc::bench
