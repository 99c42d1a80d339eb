// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc leaks PROCESS: finds the objects that are unreachable from the process's memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/find_leaks.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "image/forked_copy.h"
#include "image/memory_room.h"
#include "image/resident.h"
#include "image/symbolizer.h"
#include "image/text.h"
#include "image/worker.h"
#include "report/leak_report.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

struct LeaksOptions {
  ProcessArgument process;
  LeakOptions search;
  size_t most = 20;
  bool objects = false;
  bool json = false;
  bool no_stop = false;
  bool snapshot = false;
};

struct Sums {
  uint64_t objects = 0, bytes = 0, direct_objects = 0, direct_bytes = 0;
};

Sums SumOf(const std::vector<LeakGroup>& groups) {
  Sums sums;
  for (const LeakGroup& group : groups) {
    sums.objects += group.objects;
    sums.bytes += group.bytes;
    sums.direct_objects += group.direct_objects;
    sums.direct_bytes += group.direct_bytes;
  }
  return sums;
}

// The leaks that are reachable when pointers count everywhere in an object.
Sums SumOfReachedFar(const std::vector<Leak>& leaks) {
  Sums sums;
  for (const Leak& leak : leaks) {
    if (!leak.reached_far) continue;
    ++sums.objects;
    sums.bytes += leak.bytes;
  }
  return sums;
}

// The report says what part of the leaked objects of this size the search may miss.
constexpr uint64_t kExampleBytes = 1024;

// "A number that looks like a pointer can hide a leaked object: at most 6.1% of those of 1024
// bytes, so about 2 may be missing."
std::string MissedText(const FoundLeaks& found, const LeakOptions& options) {
  const double chance = ChanceOfMissing(found.search, options, kExampleBytes);
  const double missed = EstimateMissed(found.search, options);
  return fmt::format(
      "A number that looks like a pointer can hide a leaked object: {} of those of {} bytes{}.",
      chance < 1e-4   ? "less than 0.01%"
      : chance > 0.99 ? "possibly nearly all"
                      : fmt::format("at most {:.2g}%", 100 * chance),
      kExampleBytes,
      missed < 0.5         ? ""
      : std::isinf(missed) ? ", so an unknown number may be missing"
                           : fmt::format(", so about {:.0f} may be missing", missed));
}

// The groups whose stack is known.
size_t CountSites(const std::vector<LeakGroup>& groups) {
  return static_cast<size_t>(std::count_if(
      groups.begin(), groups.end(), [](const LeakGroup& group) { return !group.frames.empty(); }));
}

// "9 call sites, 2 groups without one"; without stacks "2 groups".
std::string GroupCountText(const std::vector<LeakGroup>& groups) {
  const size_t sites = CountSites(groups);
  const std::string rest = CountOf(groups.size() - sites, "group");
  if (sites == 0) return rest;
  const std::string known = CountOf(sites, "call site");
  return sites == groups.size() ? known : fmt::format("{}, {} without one", known, rest);
}

void PrintJson(const OpenProcess& process, const LeaksOptions& options, const FoundLeaks& found,
               const NameFrames& names) {
  const Sums sums = SumOf(found.groups);
  nlohmann::ordered_json json = ProcessJson(process.info);
  json["complete"] = found.search.incomplete.empty();
  json["incomplete"] = found.search.incomplete;
  json["probable"] = found.probable;
  json["stopped_ms"] = found.mode.pause_ms;
  json["pauses"] = found.pauses;
  if (options.snapshot) json["fork_existed_ms"] = found.mode.fork_ms;
  json["copied_bytes"] = found.copied_bytes;
  json["threads"] = found.mode.threads;
  json["objects_in_use"] = found.search.objects_in_use;
  json["bytes_in_use"] = found.search.bytes_in_use;
  json["unread_bytes"] = found.search.unread_bytes;
  json["words_searched"] = found.search.words;
  json["chance_of_missing_1024_bytes"] =
      ChanceOfMissing(found.search, options.search, kExampleBytes);
  json["missed_objects_at_most"] = EstimateMissed(found.search, options.search);
  json["objects"] = sums.objects;
  json["bytes"] = sums.bytes;
  json["direct_objects"] = sums.direct_objects;
  json["direct_bytes"] = sums.direct_bytes;
  const Sums far = SumOfReachedFar(found.search.leaks);
  json["reached_far_objects"] = far.objects;
  json["reached_far_bytes"] = far.bytes;
  json["sites"] = LeakGroupsJson(found.groups, options.objects, names);
  fmt::print("{}\n", DumpJson(json));
}

void PrintText(const OpenProcess& process, const LeaksOptions& options, const FoundLeaks& found,
               const NameFrames& names) {
  const Sums sums = SumOf(found.groups);
  const std::string name =
      process.core != nullptr ? process.name()
                              : fmt::format("Process {} ({})", process.info.pid, process.info.name);
  const char* const probable = found.search.unread_bytes > 0 ? "possibly "
                               : found.probable              ? "probably "
                                                             : "";
  if (sums.objects > 0) {
    fmt::print("{} {}has leaked {} bytes in {} objects, directly {} bytes in {}; {}\n\n", name,
               probable, sums.bytes, sums.objects, sums.direct_bytes, sums.direct_objects,
               GroupCountText(found.groups));
    fmt::print("{}\n", LeakGroupsText(found.groups, options.most, names));
    if (const Sums far = SumOfReachedFar(found.search.leaks); far.objects > 0) {
      fmt::print(
          "Of these, {} bytes in {} are reachable by pointers beyond byte {} of an object, and "
          "probably not leaked: --max-pointer-offset=-1 counts such pointers.\n",
          far.bytes, CountOf(far.objects, "object"), options.search.max_pointer_offset);
    }
    if (CountSites(found.groups) == 0) {
      fmt::print(
          "Call sites come from samples: start the program on libtcmalloc.so.4 with "
          "TCMALLOC_SAMPLE_PARAMETER=524288, for small leaks with less.\n");
    }
  } else if (found.search.incomplete.empty()) {
    fmt::print("{}: no leaks found, {} objects, {} bytes checked\n", name,
               found.search.objects_in_use, found.search.bytes_in_use);
  } else {
    fmt::print("{}: none of {} objects is known to be leaked\n", name, found.search.objects_in_use);
  }
  if (sums.objects == 0 && process.core == nullptr) {
    fmt::print(
        "Objects that are still pointed to do not count. Does it grow? "
        "'tcmalloc doctor --for 10s {}' says.\n",
        process.info.pid);
  }
  fmt::print("{}\n", MissedText(found, options.search));
  for (const std::string& reason : found.search.incomplete) fmt::print("incomplete: {}\n", reason);
  if (options.snapshot) {
    fmt::print(
        "The process was stopped for {:.1f} ms ({}) to be forked; the fork existed for "
        "{:.1f} ms ({} copied).\n",
        found.mode.pause_ms, CountOf(found.mode.threads, "thread"), found.mode.fork_ms,
        Size(found.copied_bytes));
  } else if (found.mode.file.empty() && !options.no_stop) {
    fmt::print("The process was stopped for {:.1f} ms ({}, {} copied).\n", found.mode.pause_ms,
               CountOf(found.mode.threads, "thread"), Size(found.copied_bytes));
  }
}

// Prints the cost of the fork before it makes one.
FoundLeaks FindLeaksInFork(const LeaksOptions& options, OpenProcess& process) {
  RequireRunning(process, "leaks --snapshot");
  if (process.root->pointer_bytes != sizeof(uint64_t)) {
    throw Failure(
        fmt::format("{} is a 32-bit process, which cannot be forked from here: use leaks "
                    "without --snapshot",
                    process.name()));
  }
  const ForkCost cost = FindForkCost(process.info, ReadSmaps(process.info.pid));
  RequireRoom(cost.shared_bytes, "a copy of " + process.name());
  for (const std::string& line : ForkCostLines(process.info, cost)) {
    fmt::print(stderr, "tcmalloc: {}\n", line);
  }
  return FindLeaksForked(process, options.search);
}

int Leaks(const LeaksOptions& options, OpenProcess& process) {
  RequireHeap(process);
  FoundLeaks found = options.snapshot          ? FindLeaksInFork(options, process)
                     : process.core != nullptr ? FindLeaksInFile(process, options.search)
                     : options.no_stop         ? FindLeaksRunning(process, options.search)
                                               : FindLeaksStopped(process, options.search);
  if (found.search.objects_in_use == 0) {
    // Hardly any program holds no object.
    found.search.incomplete.emplace_back(
        "the heap has no object: the program may have another malloc, for example one that is "
        "linked into it");
  }
  Symbolizer symbolizer(process.files, *process.image);
  if (options.json) {
    PrintJson(process, options, found, symbolizer.names());
  } else {
    PrintText(process, options, found, symbolizer.names());
  }
  if (!found.search.incomplete.empty()) return kIncomplete;
  return found.search.leaks.empty() ? kSuccess : kLeaks;
}

}  // namespace

void AddLeaks(CLI::App& parser, int* status) {
  const auto options = std::make_shared<LeaksOptions>();
  CLI::App* const command =
      parser.add_subcommand("leaks", "Objects of a process that nothing in its memory leads to");
  AddProcess(command, &options->process);
  command
      ->add_option_function<int64_t>(
          "--max-pointer-offset",
          // -1 becomes the largest offset.
          [options](int64_t n) { options->search.max_pointer_offset = static_cast<uint64_t>(n); },
          "A pointer into an object counts up to this many bytes after its start; -1: anywhere")
      ->check(CLI::Range(int64_t{-1}, INT64_MAX));
  command
      ->add_option("--pointer-alignment", options->search.pointer_alignment,
                   "Pointers lie at multiples of this many bytes; 0: of their size")
      ->check(CLI::IsMember({0, 1, 2, 4}));
  command->add_option("--top", options->most, "How many call sites the text has, 20 by default")
      ->check(CLI::PositiveNumber);
  command->add_flag("--objects", options->objects, "JSON has the address of each leaked object");
  CLI::Option* const no_stop =
      command->add_flag("--no-stop", options->no_stop,
                        "Do not stop the process: several passes, whose result is probable");
  command
      ->add_flag(
          "--snapshot", options->snapshot,
          "Stop the process only while it is forked, and copy the fork. The cost for the process "
          "is printed first")
      ->excludes(no_stop);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] {
    if (options->snapshot) ContinueInWorker();
    *status = WithProcess(options->process,
                          [&](OpenProcess& process) { return Leaks(*options, process); });
  });
}

}  // namespace cli
