// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc check PROCESS: finds the objects of a process on a debug library that were overwritten
// past the end, before the start, or after the free.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "commands/read_mirror.h"
#include "commands/read_profile.h"
#include "heap/debug_objects.h"
#include "image/symbolizer.h"
#include "image/text.h"
#include "report/damage_report.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

struct CheckOptions {
  ProcessArgument process;
  bool json = false;
};

// This is longer than a thread waits for a busy processor.
constexpr std::chrono::milliseconds kBetweenLooks{300};
constexpr int kMostReadings = 4;

HeapDamage Look(OpenProcess& process, ReadMode* mode) {
  HeapDamage found;
  if (process.core != nullptr) {
    WithObjects(process, mode, [&found](const HeapObjects& heap) { found = FindDamage(heap); });
    return found;
  }
  // The headers are all over the heap, so all of it is copied in one stop.
  ReadMirror(process, mode,
             [&found](Mirror&, const Target& target, bool, std::vector<Guard>* guards) {
               const HeapObjects heap(target);
               heap.AddGuards(guards);
               found = FindDamage(heap);
             });
  return found;
}

// Looks again at a running process, in which some thread is always allocating.
HeapDamage LookTillExplained(OpenProcess& process, ReadMode* mode) {
  HeapDamage found = Look(process, mode);
  if (process.core != nullptr) return found;
  for (int looks = 1; looks < kMostReadings && found.headerless > 0; ++looks) {
    std::this_thread::sleep_for(kBetweenLooks);
    ExplainHeaderless(Look(process, mode), &found);
  }
  return found;
}

std::string Missing(const OpenProcess& process) {
  if (process.core == nullptr) return {};
  if (process.core->is_snapshot()) {
    return "the snapshot was made without it ('tcmalloc snapshot --contents' saves it)";
  }
  return process.core->missing();
}

int Check(const CheckOptions& options, OpenProcess& process) {
  RequireHeap(process);
  // The constructor throws at once if the process has no headers, instead of after many attempts.
  static_cast<void>(DebugObjects(Target(*process.image, *process.root)));
  ReadMode mode;
  const HeapDamage found = LookTillExplained(process, &mode);
  const std::string unchecked = UncheckedText(found, Missing(process));
  if (options.json) {
    nlohmann::ordered_json json = ProcessJson(process.info);
    json["stopped_ms"] = mode.pause_ms;
    json["settled"] = mode.settled;
    AddDamageJson(found, &json);
    json["incomplete"] = nlohmann::ordered_json::array();
    if (!unchecked.empty()) json["incomplete"].push_back(unchecked);
    fmt::print("{}\n", DumpJson(json));
  } else {
    Symbolizer symbolizer(process.files, *process.image);
    fmt::print("Process {} ({}): {} of {} objects damaged\n{}\n{}{}\n", process.info.pid,
               process.info.name, found.damaged, found.live + found.freed,
               DamageText(found, symbolizer.names()), CheckedText(found), HowItWasRead(mode));
    if (!unchecked.empty()) fmt::print("incomplete: {}\n", unchecked);
    WarnOfMissingNames(symbolizer);
  }
  if (found.damaged > 0) return kDamaged;
  return unchecked.empty() ? kSuccess : kIncomplete;
}

}  // namespace

void AddCheck(CLI::App& parser, int* status) {
  const auto options = std::make_shared<CheckOptions>();
  CLI::App* const command = parser.add_subcommand(
      "check", "The objects that something wrote past the end or after the free (debug library)");
  AddProcess(command, &options->process);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] {
    *status = WithProcess(options->process,
                          [&](OpenProcess& process) { return Check(*options, process); });
  });
}

}  // namespace cli
