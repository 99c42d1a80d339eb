// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc explain PROCESS: explains a crash, as far as the heap shows its cause. For a running
// process it shows the last misuse of a guarded object that its library found.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "heap/crash.h"
#include "image/call_stack.h"
#include "image/symbolizer.h"
#include "image/text.h"
#include "report/crash_report.h"
#include "report/damage_report.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

struct ExplainOptions {
  ProcessArgument process;
  bool all = false;
  bool json = false;
};

// Reads the part of the report that needs the records of the heap; `objects` is null if they cannot
// be read.
void ReadHeapPart(OpenProcess& process, const HeapObjects* objects, bool all, CrashReport* report) {
  Image& image = *process.image;
  const Pointees pointees(image, objects);
  report->threads.clear();
  for (const ThreadRegisters& thread : image.Threads()) {
    report->threads.push_back(
        {.thread = thread, .registers = HeapRegisters(thread, pointees), .stack = {}});
    if (!all) break;
  }
  std::string abort_line;
  if (process.root.has_value()) abort_line = ReadAbortLine(image, process.root->abort_line);
  report->crash = ReadCrash(image, pointees, report->threads[0].registers, std::move(abort_line));
  if (objects == nullptr) return;
  report->mistake = FindMistake(objects->guarded(), report->crash);
  if (!report->mistake.has_value()) return;
  // A core file has no clock. If the library found the mistake, it recorded the time.
  report->mistake_time = report->mistake->done.thread != 0
                             ? MistakeTime{.ms = report->mistake->done.when_ms, .exact = true}
                             : MistakeTime{.ms = objects->target().NowMs(), .exact = false};
}

// True when the heap could be read.
bool ReadHeap(OpenProcess& process, bool all, CrashReport* report) {
  report->own_malloc = process.runs_on_this_allocator();
  if (!report->own_malloc) {
    report->other_malloc = OtherAllocator(process.image->Mappings());
    ReadHeapPart(process, nullptr, all, report);
    return true;
  }
  try {
    if (!Target(*process.image, *process.root).HasHeap()) {
      ReadHeapPart(process, nullptr, all, report);
      return true;
    }
    ReadMode mode;
    WithObjects(process, &mode,
                [&](const HeapObjects& objects) { ReadHeapPart(process, &objects, all, report); });
    report->held = mode.held;
    return true;
  } catch (const BadImage& error) {
    std::string line = process.core->missing();
    if (!line.empty()) line += "; ";
    report->incomplete.push_back("the heap's records cannot be read: " + line + error.what());
    ReadHeapPart(process, nullptr, all, report);
    return false;
  }
}

// The library keeps the mistake that it found, so the process need not be stopped.
std::optional<GuardMistake> ReadKeptMistake(const OpenProcess& process) {
  if (!process.runs_on_this_allocator()) return std::nullopt;
  const Target target(*process.image, *process.root);
  if (!target.HasHeap()) return std::nullopt;
  return GuardedPool(target).Kept();
}

int ExplainRunning(const ExplainOptions& options, OpenProcess& process) {
  const std::optional<GuardMistake> mistake = ReadKeptMistake(process);
  if (!mistake.has_value()) {
    throw Failure(
        fmt::format("{} runs, and its library has found no mistake with a guarded object: explain "
                    "needs a core file. 'gcore {}' writes one of a process that runs",
                    process.name(), process.info.pid));
  }
  Symbolizer symbolizer(process.files, *process.image);
  if (options.json) {
    nlohmann::ordered_json json = ProcessJson(process.info);
    json["guarded"] = MistakeJson(*mistake, symbolizer.names());
    fmt::print("{}\n", DumpJson(json));
  } else {
    fmt::print(
        "{} runs, after a mistake with a guarded object: {}", process.name(),
        MistakeText(*mistake, {.ms = mistake->done.when_ms, .exact = true}, symbolizer.names()));
  }
  for (const std::string& problem : symbolizer.Problems()) {
    fmt::print(stderr, "tcmalloc: {}\n", problem);
  }
  return kSuccess;
}

int Explain(const ExplainOptions& options, OpenProcess& process) {
  if (process.core == nullptr) return ExplainRunning(options, process);
  CoreImage& core = *process.core;
  if (core.Threads().empty()) {
    throw Failure(
        fmt::format("incomplete: {} has no registers of threads, by which a crash is "
                    "explained, or is of a machine that is not known",
                    core.path()));
  }
  CrashReport report{.info = process.info};
  const bool complete = ReadHeap(process, options.all, &report);
  core.ForgetMissing();
  Symbolizer symbolizer(process.files, core);
  StackUnwinder unwinder(symbolizer.modules(), process.files);
  for (ThreadReport& one : report.threads) {
    one.stack = unwinder.Read(one.thread, core);
    if (one.stack.guessed && !core.missing().empty()) report.incomplete.push_back(core.missing());
    core.ForgetMissing();
  }
  const std::string truncation = core.Truncation();
  if (!truncation.empty()) report.incomplete.push_back(core.path() + ": " + truncation);
  const NameFrames names = symbolizer.names();
  if (options.json) {
    fmt::print("{}\n", DumpJson(CrashJson(report, names)));
  } else {
    fmt::print("{}", CrashText(report, names));
  }
  for (const std::string& problem : symbolizer.Problems()) {
    fmt::print(stderr, "tcmalloc: {}\n", problem);
  }
  if (!report.own_malloc) return kOtherMalloc;
  return complete ? kSuccess : kFailed;
}

}  // namespace

void AddExplain(CLI::App& parser, int* status) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App* const command = parser.add_subcommand(
      "explain", "What a crash has to do with the heap: the fault, the registers, the stack");
  command
      ->add_option(
          "core", options->process.name,
          "The core file, a snapshot with registers, or the PID of a process whose library "
          "found a mistake with a guarded object")
      ->required();
  AddFiles(command, &options->process);
  command->add_flag("--all", options->all, "Show every thread, not only the one that crashed");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] {
    *status = WithProcess(options->process,
                          [&](OpenProcess& process) { return Explain(*options, process); });
  });
}

}  // namespace cli
