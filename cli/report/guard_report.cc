// SPDX-License-Identifier: BSD-3-Clause
#include "report/guard_report.h"

#include <fmt/format.h>

#include <vector>

#include "heap/profile.h"
#include "report/profile_report.h"
#include "report/sizes.h"

namespace cli {
namespace {

constexpr double kMsPerSecond = 1000;
// A smaller lower bound is omitted, since it says little.
constexpr double kLeastSeconds = 0.1;

const char* KindName(GuardMistake::Kind kind) {
  switch (kind) {
    case GuardMistake::Kind::kUseAfterFree:
      return "use after free";
    case GuardMistake::Kind::kOverflow:
    case GuardMistake::Kind::kWrittenAfter:
      return "overflow";
    case GuardMistake::Kind::kUnderflow:
    case GuardMistake::Kind::kWrittenBefore:
      return "underflow";
    case GuardMistake::Kind::kDoubleFree:
      return "double free";
    case GuardMistake::Kind::kInvalidFree:
      return "invalid free";
    case GuardMistake::Kind::kMismatchedFree:
      return "mismatched free";
    case GuardMistake::Kind::kWrongSize:
      return "wrong size";
    case GuardMistake::Kind::kNoObject:
      break;
  }
  return "invalid access";
}

std::string AccessName(const GuardMistake& mistake) {
  switch (mistake.access) {
    case GuardMistake::Access::kRead:
      return "read";
    case GuardMistake::Access::kWrite:
      return "write";
    case GuardMistake::Access::kFree:
      return mistake.freed_by.empty() ? "an unknown function" : std::string(mistake.freed_by);
    case GuardMistake::Access::kReallocate:
      return "realloc";
    case GuardMistake::Access::kAccess:
      break;
  }
  return "access";
}

// "byte 2 of ", "3 bytes after the end of ", "1 byte before ".
std::string PlaceIn(const GuardedSlot& object, Address address) {
  if (address < object.start) return CountOf(object.start - address, "byte") + " before ";
  if (address < object.end()) return fmt::format("byte {} of ", address - object.start);
  return CountOf(address - object.end(), "byte") + " after the end of ";
}

nlohmann::ordered_json TraceJson(const GuardTrace& trace, const NameFrames& names) {
  nlohmann::ordered_json json{{"thread", trace.thread}, {"when_ms", trace.when_ms}};
  auto& frames = json["stack"] = nlohmann::ordered_json::array();
  for (const Address address : trace.frames) {
    for (const SourceFrame& function : names(CallBefore(address))) {
      nlohmann::ordered_json& entry = frames.emplace_back();
      entry["address"] = address;
      entry["function"] = function.function;
      if (!function.file.empty()) entry["file"] = function.file;
      if (function.line != 0) entry["line"] = function.line;
    }
  }
  return json;
}

double SecondsBetween(int64_t from_ms, int64_t to_ms) {
  return static_cast<double>(to_ms - from_ms) / kMsPerSecond;
}

// Returns "0.2 seconds before"; empty if the time is unknown.
std::string BeforeText(const GuardTrace& trace, const MistakeTime& time) {
  if (trace.when_ms <= 0 || time.ms < trace.when_ms) return {};
  const double seconds = SecondsBetween(trace.when_ms, time.ms);
  if (!time.exact && seconds < kLeastSeconds) return {};
  return fmt::format(", {}{:.1f} seconds before", time.exact ? "" : "at least ", seconds);
}

std::string FreedText(const GuardMistake& mistake, const MistakeTime& time) {
  const int64_t allocated_ms = mistake.allocated.when_ms;
  if (time.exact || mistake.freed.when_ms < allocated_ms || allocated_ms <= 0) {
    return BeforeText(mistake.freed, time);
  }
  return fmt::format(", {:.1f} seconds after its allocation",
                     SecondsBetween(allocated_ms, mistake.freed.when_ms));
}

std::string TraceText(const std::string& title, const GuardTrace& trace, const std::string& indent,
                      const NameFrames& names) {
  std::string out = indent + title;
  if (trace.frames.empty()) return out + ", its stack is not known\n";
  out += ":\n";
  for (const Address address : trace.frames) {
    for (const SourceFrame& function : names(CallBefore(address))) {
      out += fmt::format("{}  {}\n", indent, FrameText(function));
    }
  }
  return out;
}

}  // namespace

std::string MistakeLine(const GuardMistake& mistake) {
  std::string line = fmt::format("{}: {}", KindName(mistake.kind), AccessName(mistake));
  if (!mistake.object.has_value()) {
    return line + fmt::format(" {} {:#x}, where no guarded object was",
                              mistake.is_call() ? "of" : "at", mistake.address);
  }
  const GuardedSlot& object = *mistake.object;
  if (mistake.is_found_late()) {
    return line + fmt::format(" finds that the program wrote {}an object of {} at {:#x}",
                              PlaceIn(object, mistake.address), CountOf(object.bytes, "byte"),
                              object.start);
  }
  line += fmt::format(" {} {:#x}, ", mistake.is_call() ? "of" : "at", mistake.address);
  const bool is_start = mistake.is_call() && mistake.address == object.start;
  if (!is_start) line += PlaceIn(object, mistake.address);
  line += fmt::format("an object of {}", CountOf(object.bytes, "byte"));
  if (!is_start) line += fmt::format(" at {:#x}", object.start);
  if (object.was_freed()) line += " that was freed";
  if (mistake.kind == GuardMistake::Kind::kMismatchedFree) {
    line += fmt::format(" that came from {}",
                        object.allocator.empty() ? "an unknown function" : object.allocator);
  } else if (mistake.kind == GuardMistake::Kind::kWrongSize) {
    line += fmt::format(", but the call says {}", CountOf(mistake.size, "byte"));
    if (mistake.alignment != 1) line += fmt::format(" with alignment {}", mistake.alignment);
  }
  return line;
}

std::string MistakeHistory(const GuardMistake& mistake, const MistakeTime& time,
                           const std::string& indent, const NameFrames& names) {
  if (!mistake.object.has_value()) return {};
  std::string out;
  if (mistake.freed.thread != 0) {
    out += TraceText(
        fmt::format("freed by thread {}{}", mistake.freed.thread, FreedText(mistake, time)),
        mistake.freed, indent, names);
  }
  return out + TraceText(fmt::format("allocated by thread {}{}", mistake.allocated.thread,
                                     BeforeText(mistake.allocated, time)),
                         mistake.allocated, indent, names);
}

std::string MistakeText(const GuardMistake& mistake, const MistakeTime& time,
                        const NameFrames& names) {
  std::string out = MistakeLine(mistake) + "\n";
  if (mistake.done.thread != 0) {
    out +=
        TraceText(fmt::format("done by thread {}", mistake.done.thread), mistake.done, "  ", names);
  }
  return out + MistakeHistory(mistake, time, "  ", names);
}

nlohmann::ordered_json MistakeJson(const GuardMistake& mistake, const NameFrames& names) {
  nlohmann::ordered_json json{{"error", KindName(mistake.kind)},
                              {"line", MistakeLine(mistake)},
                              {"by", AccessName(mistake)},
                              {"address", mistake.address}};
  if (mistake.object.has_value()) {
    const GuardedSlot& object = *mistake.object;
    json["object"] = {{"start", object.start},
                      {"bytes", object.bytes},
                      {"offset", static_cast<int64_t>(mistake.address - object.start)},
                      {"freed", object.was_freed()},
                      {"allocator", object.allocator}};
    json["allocated"] = TraceJson(mistake.allocated, names);
    if (mistake.freed.thread != 0) json["freed"] = TraceJson(mistake.freed, names);
  }
  if (mistake.done.thread != 0) json["done"] = TraceJson(mistake.done, names);
  return json;
}

}  // namespace cli
