// SPDX-License-Identifier: BSD-3-Clause
#include "commands/read_profile.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace cli {

Samples ReadSamplesOf(OpenProcess& process, ReadMode* mode) {
  RequireHeap(process);
  Samples samples;
  mode->scattered = true;
  CallStacks stacks(*process.image);
  ReadAtRest(process, mode, [&](const Target& target, std::vector<Guard>* guards) {
    samples = ReadSamples(target, guards, &stacks);
  });
  if (!samples.supported) {
    throw Failure(
        fmt::format("process {} ({}) runs on libtcmalloc_minimal, which takes no samples: start it "
                    "with libtcmalloc.so.4",
                    process.info.pid, process.info.name));
  }
  return samples;
}

void RequireSampling(const Samples& samples, const ProcessInfo& info) {
  if (samples.interval != 0 || !samples.samples.empty()) return;
  throw Failure(
      fmt::format("process {} ({}) takes no samples: start it with "
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
    fmt::print(stderr, "tcmalloc: no names of functions: {}\n", problem);
  }
}

void WriteOutput(const std::string& path, const std::string& contents) {
  if (path == "-") {
    fwrite(contents.data(), 1, contents.size(), stdout);
    return;
  }
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << contents;
  if (!file.flush()) throw Failure(fmt::format("cannot write {}: {}", path, strerror(errno)));
}

}  // namespace cli
