// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc doctor PROCESS: explains why the resident memory exceeds the memory that the program
// holds. The process is never stopped.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "commands/read_facts.h"
#include "heap/statistics.h"
#include "image/text.h"
#include "report/diagnosis.h"
#include "report/diagnosis_report.h"

namespace cli {
namespace {

struct DoctorOptions {
  ProcessArgument process;
  double seconds = 0;
  bool json = false;
};

// Growth is steady if the objects grew in each of this many equal parts of the time.
constexpr size_t kParts = 3;

// Reads the statistics at the beginning, and at the end of each part of `seconds`.
Growth Watch(const Target& target, double seconds) {
  std::vector<Statistics> readings = {ReadStatistics(target)};
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 1; i <= kParts; ++i) {
    const std::chrono::duration<double> passed(seconds * static_cast<double>(i) / kParts);
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(passed));
    readings.push_back(ReadStatistics(target));
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  return GrowthOver(readings, passed.count());
}

int Doctor(const DoctorOptions& options, const OpenProcess& process) {
  if (options.seconds > 0) RequireRunning(process, "--for");
  std::optional<Target> target;
  if (process.runs_on_this_allocator()) {
    target.emplace(*process.image, *process.root);
    if (!target->HasHeap()) target.reset();
  }
  std::optional<Growth> growth;
  if (target.has_value() && options.seconds > 0) growth = Watch(*target, options.seconds);
  Facts facts = ReadFacts(process, target);
  facts.growth = std::move(growth);
  if (target.has_value() && process.core == nullptr) {
    const std::vector<std::string> environment = EnvironmentOf(process.info.pid);
    facts.hints = HintsAbout(environment);
    facts.is_python_that_maps = IsPythonThatMaps(process.info.executable, environment);
  }
  const bool other = !process.runs_on_this_allocator();
  if (other) facts.other_malloc = OtherAllocator(process.image->Mappings());
  const Diagnosis diagnosis = Diagnose(facts);
  if (options.json) {
    fmt::print("{}\n", DumpJson(DiagnosisJson(diagnosis, facts, process.info)));
  } else {
    fmt::print("{}", DiagnosisText(diagnosis, facts, process.info));
  }
  return other ? kOtherMalloc : kSuccess;
}

}  // namespace

void AddDoctor(CLI::App& parser, int* status) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* const command = parser.add_subcommand(
      "doctor", "Why the resident memory of a process is larger than what the program holds");
  AddProcess(command, &options->process);
  AddDuration(command, "--for", &options->seconds,
              "Watch for this long, to see whether the program's objects grow: 10s, 2m");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] {
    *status = WithProcess(options->process,
                          [&](const OpenProcess& process) { return Doctor(*options, process); });
  });
}

}  // namespace cli
