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

#include "commands/commands.h"
#include "commands/durations.h"
#include "commands/open_process.h"
#include "commands/process_option.h"
#include "heap/lacking.h"
#include "heap/statistics.h"
#include "image/file_pages.h"
#include "image/patience.h"
#include "image/resident.h"
#include "image/stacks.h"
#include "report/diagnosis.h"
#include "report/diagnosis_report.h"

namespace cli {
namespace {

struct DoctorOptions {
  ProcessArgument process;
  double seconds = 0;
  bool json = false;
};

// Memory may change between the reading of the kernel's figures and of the heap's, so the best of
// several readings counts.
constexpr int kReadings = 5;
constexpr uint64_t kClosePart = 50;

uint64_t Apart(const Facts& facts) {
  const uint64_t sum = facts.heap.sum() + facts.process.sum();
  return sum > facts.resident_bytes ? sum - facts.resident_bytes : facts.resident_bytes - sum;
}

ResidentPages PagesOf(const OpenProcess& process) {
  if (process.core == nullptr) {
    return {OpenPages(process.info.pid), ReadSmaps(process.info.pid)};
  }
  FilePages pages = ReadFilePages(*process.core);
  return {std::move(pages.pages), std::move(pages.uses)};
}

ThreadFacts ThreadsOf(const OpenProcess& process) {
  const size_t threads = process.info.threads;
  if (process.core == nullptr) {
    const pid_t pid = process.info.pid;
    return {.threads = threads, .stacks = StackPointers(pid), .stack_bytes = ThreadStackBytes(pid)};
  }
  if (!process.core->is_snapshot()) return {.threads = threads};
  const SnapshotFacts& facts = process.core->facts();
  return {.threads = threads, .stacks = facts.stacks, .stack_bytes = facts.stack_bytes};
}

// A snapshot contains the kernel's figures of resident memory.
void AddLacking(const OpenProcess& process, const Target& target, Facts* facts) {
  if (process.core == nullptr || process.core->is_snapshot()) return;
  const Lacking lacking =
      LackingMemory(HeapObjects(target), process.image->Mappings(),
                    [&process](Address address) { return process.core->IsUnwritten(address); });
  facts->lacking_bytes = lacking.bytes;
  if (lacking.bytes > 0) facts->lacking = process.core->WhyMissing(lacking.first);
}

Facts ReadOnce(const OpenProcess& process, const std::optional<Target>& target) {
  Facts facts{
      .target = process.core == nullptr ? std::to_string(process.info.pid) : process.core->path(),
      .is_running = process.core == nullptr};
  ResidentPages pages = PagesOf(process);
  for (const MappingUse& use : pages.mappings()) facts.resident_bytes += use.resident_bytes;
  if (target.has_value()) {
    facts.stats = ReadStatistics(*target);
    const auto read = [&] { return ReadHeapUse(*target, facts.stats, pages); };
    facts.heap = facts.is_running ? ReadWhileItChanges(read) : read();
    AddLacking(process, *target, &facts);
  }
  facts.process = ReadProcessUse(pages, ThreadsOf(process));
  facts.swapped_bytes = process.info.memory.swapped_bytes;
  return facts;
}

Facts ReadFacts(const OpenProcess& process, const std::optional<Target>& target) {
  Facts best = ReadOnce(process, target);
  // A file does not change, so one reading is enough.
  if (process.core != nullptr) return best;
  for (int i = 1; i < kReadings && Apart(best) > best.resident_bytes / kClosePart; ++i) {
    Facts facts = ReadOnce(process, target);
    if (Apart(facts) < Apart(best)) best = std::move(facts);
  }
  return best;
}

int Doctor(const DoctorOptions& options, const OpenProcess& process) {
  if (options.seconds > 0) RequireRunning(process, "--for");
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
  Diagnosis diagnosis = Diagnose(facts);
  if (!process.info.has_kernel_figures) {
    diagnosis.notes.push_back(
        "A core does not say what was resident: pages that are not all zeroes count. Code of files "
        "and other memory that the core lacks does not.");
  }
  if (options.json) {
    fmt::print("{}\n", DiagnosisJson(diagnosis, facts, process.info).dump());
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
