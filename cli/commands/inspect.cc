// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc inspect PID ADDRESS: what is at an address of a process.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "heap/profile.h"
#include "image/symbolizer.h"
#include "report/profile_report.h"
#include "report/sizes.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

struct Options {
  pid_t pid = 0;
  std::string address;
  bool contents = false;
  bool json = false;
  bool no_stop = false;
};

constexpr size_t kMaxDump = 4096;

struct Answer {
  Place place;
  std::string state;  // of the span
  int64_t age_ms = 0;
  std::vector<Sample> sample;  // one or none
  std::vector<char> contents;
};

Answer Ask(const HeapObjects& objects, Address address, const Options& options) {
  const Target& target = objects.target();
  Answer answer{.place = objects.Find(address)};
  const Place& place = answer.place;
  if (place.kind == Place::Kind::kOutside) return answer;
  answer.state = objects.StateText(place.span);
  const int64_t now = target.NowMs();
  answer.age_ms = place.span.AgeMs(now);
  if (place.span.sample != 0) answer.sample.push_back(ReadSample(target, place.span.sample));
  if (options.contents && place.object.start != 0) {
    answer.contents.resize(std::min<uint64_t>(place.object.bytes, kMaxDump));
    if (!target.image().Read(place.object.start, answer.contents.data(), answer.contents.size())) {
      answer.contents.clear();
    }
  }
  return answer;
}

const char* KindName(const Place& place) {
  switch (place.kind) {
    case Place::Kind::kOutside:
      return "outside";
    case Place::Kind::kFreeSpan:
      return "no object";
    case Place::Kind::kTail:
      return "after the last object";
    case Place::Kind::kInUse:
      return "in use";
    case Place::Kind::kFree:
      return "free";
    case Place::Kind::kCached:
      return "free, in a thread cache";
  }
  return "";
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

void PrintText(const Options& options, Address address, const Answer& answer, Image& image) {
  const Place& place = answer.place;
  if (place.kind == Place::Kind::kOutside) {
    std::string where = "in no mapping";
    for (const Mapping& mapping : image.Mappings()) {
      if (address < mapping.start || address >= mapping.end) continue;
      where = mapping.name.empty() ? "in anonymous memory" : "in " + mapping.name;
    }
    fmt::print("{:#x} is outside of the heap of process {}: {}\n", address, options.pid, where);
    return;
  }
  if (place.object.start != 0) {
    fmt::print("{:#x} is in an object of {} bytes at {:#x} (offset {}): {}\n", address,
               place.object.bytes, place.object.start, address - place.object.start,
               KindName(place));
  } else {
    fmt::print(
        "{:#x} is in no object: {}\n", address,
        place.kind == Place::Kind::kTail ? "after the last object of its span" : answer.state);
  }
  if (place.kind == Place::Kind::kCached) {
    fmt::print("  cache      {:#x}{}\n", place.cache,
               place.cache_in_use ? "" : ", which no thread uses at the moment");
  }
  fmt::print("  span       {:#x} to {:#x}, {}, {}\n", place.span.start,
             place.span.start + place.span.bytes, Size(place.span.bytes), answer.state);
  if (place.span.size_class != 0) {
    fmt::print("  objects    {} of {} bytes, {} free in the span; shard {}\n",
               place.span.num_objects, place.span.object_bytes, place.span.free_objects,
               place.span.shard);
  }
  if (place.span.num_objects != 0) {
    fmt::print("  handed out {:.1f} seconds ago (the span)\n",
               static_cast<double>(answer.age_ms) / 1000);
  }
  for (const Sample& sample : answer.sample) {
    fmt::print("  sampled    {} bytes requested, allocated by\n", sample.requested_bytes);
    Symbolizer symbolizer(options.pid, image);
    for (const Address call : sample.frames) {
      for (const SourceFrame& frame : symbolizer.FramesAt(CallBefore(call))) {
        fmt::print("    {}\n", FrameText(frame));
      }
    }
  }
  if (options.contents) PrintDump(place.object.start, answer.contents);
}

void PrintJson(const ProcessInfo& info, Address address, const Answer& answer,
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
  if (place.kind != Place::Kind::kOutside) {
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
  fmt::print("{}\n", json.dump());
}

int Inspect(const Options& options) {
  Address address = 0;
  try {
    address = std::stoull(options.address, nullptr, 0);
  } catch (const std::logic_error&) {
    throw Failure(fmt::format("'{}' is not an address", options.address));
  }
  OpenProcess process = OpenProcessFor(options.pid);
  RequireHeap(process);
  ReadMode mode{.stop = !options.no_stop, .scattered = true};
  Answer answer;
  WithObjects(process, &mode,
              [&](const HeapObjects& objects) { answer = Ask(objects, address, options); });
  if (options.json) {
    PrintJson(process.info, address, answer, mode);
  } else {
    PrintText(options, address, answer, *process.image);
    fmt::print("\n{}\n", HowItWasRead(mode));
  }
  return kSuccess;
}

}  // namespace

void AddInspect(CLI::App& parser, int* status) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command =
      parser.add_subcommand("inspect", "Which object is at an address, and in which state");
  command->add_option("pid", options->pid, "The process")->required();
  command->add_option("address", options->address, "The address, for example 0x7f12a0001040")
      ->required();
  command->add_flag("--contents", options->contents, "Also dump the object's first 4 KiB");
  command->add_flag("--no-stop", options->no_stop, kNoStopHelp);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] { *status = Inspect(*options); });
}

}  // namespace cli
