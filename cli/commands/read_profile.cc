// SPDX-License-Identifier: BSD-3-Clause
#include "commands/read_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

namespace {

constexpr int kTriesWithoutStop = 3;

// Returns nullopt when the samples changed at each attempt.
std::optional<Samples> ReadUnchanged(OpenProcess& process, CallStacks* stacks) {
  const Target target(*process.image, *process.root);
  for (int i = 0; i < kTriesWithoutStop; ++i) {
    try {
      const std::vector<char> before = SampleTableState(target);
      std::vector<Guard> guards;
      Samples samples = ReadSamples(target, &guards, stacks);
      const bool locked = std::any_of(guards.begin(), guards.end(),
                                      [](const Guard& guard) { return guard.value != 0; });
      if (!locked && SampleTableState(target) == before) return samples;
    } catch (const NotPublished&) {
      throw;
    } catch (const BadImage&) {
      // The samples changed meanwhile.
    }
  }
  return std::nullopt;
}

}  // namespace

Samples ReadSamplesOf(OpenProcess& process, ReadMode* mode) {
  RequireHeap(process);
  mode->scattered = true;
  CallStacks stacks(*process.image);
  std::optional<Samples> unchanged;
  if (process.core == nullptr) unchanged = ReadUnchanged(process, &stacks);
  Samples samples;
  if (unchanged.has_value()) {
    mode->unchanged = true;
    samples = std::move(*unchanged);
  } else {
    ReadAtRest(process, mode, [&](const Target& target, std::vector<Guard>* guards) {
      samples = ReadSamples(target, guards, &stacks);
    });
  }
  if (!samples.supported) {
    throw Failure(
        fmt::format("{} runs on libtcmalloc_minimal, which takes no samples: start it "
                    "with libtcmalloc.so.4",
                    process.name()));
  }
  return samples;
}

void RequireSampling(const Samples& samples, const ProcessInfo& info) {
  if (samples.interval != 0 || !samples.samples.empty()) return;
  throw Failure(
      fmt::format("process {0} ({1}) takes no samples: 'tcmalloc set {0} sampling=512K' has it "
                  "begin; to have samples from its start on, start it with "
                  "TCMALLOC_SAMPLE_PARAMETER=524288 in its environment, or with 'tcmalloc run'",
                  info.pid, info.name));
}

std::string ProgramOf(const ProcessInfo& info) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string path = info.executable;
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  return path;
}

void WarnOfMissingNames(const Symbolizer& symbolizer) {
  for (const std::string& problem : symbolizer.Problems()) {
    fmt::print(stderr, "tcmalloc: names are missing: {}\n", problem);
  }
}

}  // namespace cli
