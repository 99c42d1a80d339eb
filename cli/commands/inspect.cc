// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc inspect PROCESS ADDRESS: describes the memory at an address of a process.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "commands/options.h"
#include "commands/read_mirror.h"
#include "commands/read_profile.h"
#include "heap/profile.h"
#include "heap/referrers.h"
#include "image/symbolizer.h"
#include "image/text.h"
#include "report/pointee_text.h"
#include "report/profile_report.h"
#include "report/referrers_report.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

struct InspectOptions {
  ProcessArgument process;
  std::string address;
  bool contents = false;
  bool referrers = false;
  size_t limit = 10;
  bool json = false;
  bool no_stop = false;
};

constexpr size_t kMaxDump = 4096;

struct Answer {
  Place place;
  std::string state;  // of the span
  int64_t age_ms = 0;
  std::vector<Sample> sample;  // one or none
  // The guarded object in whose slot the address is; the address may be outside the object.
  std::optional<GuardedSlot> guarded;
  GuardTrace allocated;
  GuardTrace freed;  // thread 0 if it was not freed
  int64_t now_ms = 0;
  std::vector<char> contents;
};

// The guarded object whose slot has the address, or null.
const GuardedSlot* GuardedAt(const HeapObjects& objects, Address address) {
  if (!objects.guarded().Contains(address)) return nullptr;
  const GuardedSlot* const slot = objects.guarded().SlotOf(address);
  return slot != nullptr && slot->HasObject() ? slot : nullptr;
}

Answer Ask(const HeapObjects& objects, Address address, const InspectOptions& options) {
  const Target& target = objects.target();
  Answer answer{.place = objects.Find(address)};
  const Place& place = answer.place;
  if (place.kind == Place::Kind::kOutside) return answer;
  answer.state = objects.StateText(place.span);
  answer.now_ms = target.NowMs();
  answer.age_ms = place.span.AgeMs(answer.now_ms);
  if (const GuardedSlot* const slot = GuardedAt(objects, address)) {
    answer.guarded = *slot;
    answer.allocated = objects.guarded().AllocationOf(*slot);
    answer.freed = objects.guarded().FreeOf(*slot);
  }
  if (place.span.sample != 0) answer.sample.push_back(ReadSample(target, place.span.sample));
  if (options.contents && place.object.start != 0 && place.kind != Place::Kind::kQuarantined) {
    answer.contents.resize(std::min<uint64_t>(place.object.bytes, kMaxDump));
    if (!target.image().Read(place.object.start, answer.contents.data(), answer.contents.size())) {
      answer.contents.clear();
    }
  }
  return answer;
}

void PrintDump(Address start, const std::vector<char>& contents) {
  constexpr size_t kLine = 16;
  for (size_t at = 0; at < contents.size(); at += kLine) {
    std::string hex;
    std::string text;
    for (size_t i = at; i < std::min(at + kLine, contents.size()); ++i) {
      const auto byte = static_cast<unsigned char>(contents[i]);
      hex += fmt::format("{:02x} ", byte);
      text += byte >= 0x20 && byte < 0x7f ? contents[i] : '.';
    }
    fmt::print("  {:#x}  {:<48} {}\n", start + at, hex, text);
  }
}

std::string_view NoObjectText(const Answer& answer) {
  const Place& place = answer.place;
  if (place.kind == Place::Kind::kGuardPage) return "a page without access, beside guarded objects";
  if (place.kind != Place::Kind::kTail) return answer.state;
  return place.guarded ? "in the pages of a guarded object" : "after the last object of its span";
}

void PrintTrace(const char* what, const GuardTrace& trace, int64_t now_ms, Symbolizer* symbolizer) {
  if (trace.thread == 0) return;
  // The time that is known of a core file may precede the event.
  fmt::print("  {:<10} by thread {}, {:.1f} seconds ago\n", what, trace.thread,
             static_cast<double>(std::max<int64_t>(now_ms - trace.when_ms, 0)) / 1000);
  for (const Address call : trace.frames) {
    for (const SourceFrame& frame : symbolizer->FramesAt(CallBefore(call))) {
      fmt::print("    {}\n", FrameText(frame));
    }
  }
}

void PrintGuarded(const Answer& answer, const OpenProcess& process) {
  Symbolizer symbolizer(process.files, *process.image);
  if (answer.guarded.has_value()) {
    const GuardedSlot& slot = *answer.guarded;
    fmt::print("  guarded    an object of {} bytes at {:#x}, {}\n", slot.bytes, slot.start,
               slot.was_freed() ? "freed, in quarantine" : "in use");
  }
  PrintTrace("freed", answer.freed, answer.now_ms, &symbolizer);
  PrintTrace("allocated", answer.allocated, answer.now_ms, &symbolizer);
  WarnOfMissingNames(symbolizer);
}

void PrintOutside(Address address, const OpenProcess& process) {
  std::string where = "in no mapping";
  for (const Mapping& mapping : process.image->Mappings()) {
    if (address < mapping.start || address >= mapping.end) continue;
    where = mapping.name.empty() ? "in anonymous memory" : "in " + mapping.name;
  }
  fmt::print("{:#x} is outside of the heap of process {}: {}\n", address, process.info.pid, where);
}

void PrintContents(const Answer& answer, const OpenProcess& process) {
  if (answer.place.kind == Place::Kind::kQuarantined) {
    fmt::print("  contents   none: its pages were released when it was freed\n");
    return;
  }
  PrintDump(answer.place.object.start, answer.contents);
  if (answer.contents.empty()) {
    fmt::print("incomplete: the object's contents are not readable{}\n",
               process.core == nullptr ? "" : ": " + process.core->missing());
  }
}

void PrintText(const InspectOptions& options, Address address, const Answer& answer,
               const OpenProcess& process) {
  const Place& place = answer.place;
  if (place.kind == Place::Kind::kOutside) {
    PrintOutside(address, process);
    return;
  }
  if (place.object.start != 0) {
    fmt::print("{:#x} is in an object of {} bytes at {:#x} (offset {}): {}\n", address,
               place.object.bytes, place.object.start, address - place.object.start,
               KindName(place));
  } else {
    fmt::print("{:#x} is in no object: {}\n", address, NoObjectText(answer));
  }
  if (place.kind == Place::Kind::kCached) {
    fmt::print("  cache      {:#x}{}\n", place.cache,
               place.cache_in_use ? "" : ", which no thread uses at the moment");
  }
  if (place.guarded) {
    PrintGuarded(answer, process);
  } else {
    fmt::print("  span       {:#x} to {:#x}, {}, {}\n", place.span.start,
               place.span.start + place.span.bytes, Size(place.span.bytes), answer.state);
  }
  if (place.span.size_class != 0) {
    fmt::print("  objects    {} of {} bytes, {} free in the span; shard {}\n",
               place.span.num_objects, place.span.object_bytes, place.span.free_objects,
               place.span.shard);
  }
  if (place.span.num_objects != 0 && !place.guarded) {
    fmt::print("  handed out {:.1f} seconds ago (the span)\n",
               static_cast<double>(answer.age_ms) / 1000);
  }
  for (const Sample& sample : answer.sample) {
    if (place.guarded) break;  // its stack is that of the allocation
    fmt::print("  sampled    {} bytes requested, allocated by\n", sample.requested_bytes);
    Symbolizer symbolizer(process.files, *process.image);
    for (const Address call : sample.frames) {
      for (const SourceFrame& frame : symbolizer.FramesAt(CallBefore(call))) {
        fmt::print("    {}\n", FrameText(frame));
      }
    }
    WarnOfMissingNames(symbolizer);
  }
  if (options.contents && place.object.start != 0) PrintContents(answer, process);
}

nlohmann::ordered_json AnswerJson(const ProcessInfo& info, Address address, const Answer& answer,
                                  const ReadMode& mode) {
  const Place& place = answer.place;
  nlohmann::ordered_json json = ProcessJson(info);
  json["stopped_ms"] = mode.pause_ms;
  json["settled"] = mode.settled;
  json["address"] = address;
  json["state"] = KindName(place);
  if (place.object.start != 0) {
    json["object"] = {{"start", place.object.start}, {"bytes", place.object.bytes}};
  }
  if (place.kind == Place::Kind::kCached) json["cache"] = place.cache;
  if (answer.guarded.has_value()) {
    json["guarded"] = {{"start", answer.guarded->start},
                       {"bytes", answer.guarded->bytes},
                       {"freed", answer.guarded->was_freed()},
                       {"allocated_by_thread", answer.allocated.thread},
                       {"allocated_ms_ago", answer.now_ms - answer.allocated.when_ms},
                       {"allocated_at", answer.allocated.frames}};
    if (answer.freed.thread != 0) {
      json["guarded"]["freed_by_thread"] = answer.freed.thread;
      json["guarded"]["freed_ms_ago"] = answer.now_ms - answer.freed.when_ms;
      json["guarded"]["freed_at"] = answer.freed.frames;
    }
  }
  if (place.kind != Place::Kind::kOutside && !place.guarded) {
    json["span"] = {{"start", place.span.start},
                    {"bytes", place.span.bytes},
                    {"state", answer.state},
                    {"objects", place.span.num_objects},
                    {"free_objects", place.span.free_objects},
                    {"object_bytes", place.span.object_bytes},
                    {"shard", place.span.shard},
                    {"handed_out_ms_ago", answer.age_ms}};
  }
  for (const Sample& sample : answer.sample) {
    json["sample"] = {{"requested_bytes", sample.requested_bytes}, {"frames", sample.frames}};
  }
  return json;
}

Address ParseAddress(const std::string& text) {
  try {
    return std::stoull(text, nullptr, 0);
  } catch (const std::logic_error&) {
    throw Failure(fmt::format("'{}' is not an address", text));
  }
}

// The parts that the search could not examine, one per line.
std::vector<std::string> MissingFor(const ReferrerSearch& search, const Mirror& mirror,
                                    const OpenProcess& process, const ReadMode& mode) {
  std::vector<std::string> lines;
  const uint64_t unread = search.unread_bytes + mirror.unread_bytes();
  if (unread > 0) {
    std::string line = fmt::format("{} bytes that may hold pointers could not be read", unread);
    if (process.core != nullptr && search.unread_bytes > 0) {
      line += fmt::format(", those at {:#x} first: {}", search.first_unread,
                          process.core->WhyMissing(search.first_unread));
    }
    if (mirror.unknown_bytes() > 0) line += std::string(": ") + RangeTooLong().what();
    lines.push_back(std::move(line));
  }
  if (process.core == nullptr) {
    if (!mode.stop) {
      lines.push_back("the process was not stopped: pointers may have moved while it was copied");
    }
    return lines;
  }
  const std::string truncation = process.core->Truncation();
  if (!truncation.empty()) lines.push_back(process.core->path() + ": " + truncation);
  if (process.core->is_snapshot()) {
    if (!process.core->facts().all_memory) {
      const size_t roots = search.registered_roots.size();
      lines.push_back(fmt::format(
          "a snapshot has no variables, stacks{} and contents of objects without --contents",
          roots == 0 ? "" : fmt::format(", registered roots ({})", roots)));
    }
  } else if (!process.core->HasVariables()) {
    lines.push_back("the file lacks variables of the program or of a library");
  }
  return lines;
}

ReferrerOptions SearchOptions(const InspectOptions& options, const OpenProcess& process) {
  ReferrerOptions search{.chains = options.limit};
  if (process.core == nullptr || process.core->is_snapshot()) return search;
  // The kernel omits pages that were never written.
  search.is_unwritten = [core = process.core, mappings = process.image->Mappings()](Address at) {
    if (core->IsUnwritten(at)) return true;
    const auto after =
        std::upper_bound(mappings.begin(), mappings.end(), at,
                         [](Address a, const Mapping& mapping) { return a < mapping.end; });
    return core->Truncation().empty() && after != mappings.end() && after->start <= at &&
           after->missing && !after->writable && after->name.starts_with('/');
  };
  return search;
}

int InspectReferrers(const InspectOptions& options, Address address, OpenProcess& process) {
  ReadMode mode{.stop = !options.no_stop};
  const ReferrerOptions search_options = SearchOptions(options, process);
  Answer answer;
  ReferrerSearch search;
  const auto read = [&](Mirror& mirror, const Target& target, bool stopped,
                        std::vector<Guard>* guards) {
    search =
        FindReferrers(mirror, target, process.info.pid, stopped, address, search_options, guards);
    answer = Ask(HeapObjects(target), address, options);
  };
  const std::unique_ptr<Mirror> mirror = ReadMirror(process, &mode, read);
  for (std::string& line : MissingFor(search, *mirror, process, mode)) {
    search.incomplete.push_back(std::move(line));
  }
  const Target target(*mirror, *process.root);
  HolderNames names(target, process.files, process.info.executable);
  if (options.json) {
    nlohmann::ordered_json json = AnswerJson(process.info, address, answer, mode);
    json["referrers"] = ReferrersJson(search, names);
    fmt::print("{}\n", DumpJson(json));
  } else {
    PrintText(options, address, answer, process);
    fmt::print("\n{}\n{}\n", ReferrersText(search, names), HowItWasRead(mode));
  }
  for (const std::string& problem : names.Problems()) {
    fmt::print(stderr, "tcmalloc: {}\n", problem);
  }
  return search.incomplete.empty() && mode.settled ? kSuccess : kIncomplete;
}

int Inspect(const InspectOptions& options, OpenProcess& process) {
  const Address address = ParseAddress(options.address);
  RequireHeap(process);
  if (options.referrers) return InspectReferrers(options, address, process);
  ReadMode mode{.stop = !options.no_stop, .scattered = true};
  Answer answer;
  WithObjects(process, &mode,
              [&](const HeapObjects& objects) { answer = Ask(objects, address, options); });
  if (options.json) {
    fmt::print("{}\n", DumpJson(AnswerJson(process.info, address, answer, mode)));
  } else {
    PrintText(options, address, answer, process);
    fmt::print("\n{}\n", HowItWasRead(mode));
  }
  return kSuccess;
}

}  // namespace

void AddInspect(CLI::App& parser, int* status) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* const command =
      parser.add_subcommand("inspect", "Which object is at an address, and in which state");
  AddProcess(command, &options->process);
  command->add_option("address", options->address, "The address, for example 0x7f12a0001040")
      ->required();
  command->add_flag("--contents", options->contents, "Also dump the object's first 4 KiB");
  command->add_flag("--referrers", options->referrers,
                    "Also show what points to the object, up to variables, stacks and registers");
  command->add_option("--limit", options->limit, "How many referrers are shown, 10 by default")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--no-stop", options->no_stop, kNoStopHelp);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] {
    // The user may have given the address first.
    if (options->process.name.starts_with("0x") && !options->address.starts_with("0x")) {
      std::swap(options->process.name, options->address);
    }
    *status = WithProcess(options->process,
                          [&](OpenProcess& process) { return Inspect(*options, process); });
  });
}

}  // namespace cli
