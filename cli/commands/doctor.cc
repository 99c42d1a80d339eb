// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc doctor PID: why the resident memory is larger than what the program holds. The process
// is never stopped.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "commands/commands.h"
#include "commands/durations.h"
#include "commands/open_process.h"
#include "heap/statistics.h"
#include "image/resident.h"
#include "image/stacks.h"
#include "report/diagnosis.h"
#include "report/diagnosis_report.h"

namespace cli {
namespace {

struct Options {
  pid_t pid = 0;
  double seconds = 0;
  bool json = false;
};

// Memory may change between the kernel's figures and the heap's: the best of some readings counts.
constexpr int kReadings = 5;
constexpr uint64_t kClosePart = 50;

uint64_t Apart(const Facts& facts) {
  const uint64_t sum = facts.heap.sum() + facts.process.sum();
  return sum > facts.resident_bytes ? sum - facts.resident_bytes : facts.resident_bytes - sum;
}

Facts ReadOnce(const OpenProcess& process, const std::optional<Target>& target) {
  const pid_t pid = process.info.pid;
  Facts facts{.pid = pid};
  ResidentPages pages(OpenPages(pid), ReadSmaps(pid));
  for (const MappingUse& use : pages.mappings()) facts.resident_bytes += use.resident_bytes;
  if (target.has_value()) {
    facts.stats = ReadStatistics(*target);
    facts.heap = ReadHeapUse(*target, facts.stats, pages);
  }
  facts.process = ReadProcessUse(pages, {.threads = process.info.threads,
                                         .stacks = StackPointers(pid),
                                         .stack_bytes = ThreadStackBytes(pid)});
  facts.swapped_bytes = process.info.memory.swapped_bytes;
  return facts;
}

Facts ReadFacts(const OpenProcess& process, const std::optional<Target>& target) {
  Facts best = ReadOnce(process, target);
  for (int i = 1; i < kReadings && Apart(best) > best.resident_bytes / kClosePart; ++i) {
    Facts facts = ReadOnce(process, target);
    if (Apart(facts) < Apart(best)) best = std::move(facts);
  }
  return best;
}

int Doctor(const Options& options) {
  const OpenProcess process = OpenProcessFor(options.pid);
  std::optional<Target> target;
  if (process.runs_on_this_allocator()) {
    target.emplace(*process.image, *process.root);
    if (!target->HasHeap()) target.reset();
  }
  std::optional<Statistics> before;
  const auto begin = std::chrono::steady_clock::now();
  if (target.has_value() && options.seconds > 0) {
    before = ReadStatistics(*target);
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  }
  Facts facts = ReadFacts(process, target);
  if (before.has_value()) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    facts.growth = GrowthBetween(*before, facts.stats, passed.count());
  }
  const bool other = !process.runs_on_this_allocator();
  if (other) facts.other_malloc = OtherAllocator(process.image->Mappings());
  const Diagnosis diagnosis = Diagnose(facts);
  if (options.json) {
    fmt::print("{}\n", DiagnosisJson(diagnosis, facts, process.info).dump());
  } else {
    fmt::print("{}", DiagnosisText(diagnosis, facts, process.info));
  }
  return other ? kOtherMalloc : kSuccess;
}

}  // namespace

void AddDoctor(CLI::App& parser, int* status) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = parser.add_subcommand(
      "doctor", "Why the resident memory of a process is larger than what the program holds");
  command->add_option("pid", options->pid, "The process")->required();
  AddDuration(command, "--for", &options->seconds,
              "Watch for this long, to see whether the program's objects grow: 10s, 2m");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] { *status = Doctor(*options); });
}

}  // namespace cli
