// SPDX-License-Identifier: BSD-3-Clause
#include "report/damage_report.h"

#include <fmt/format.h>

#include <vector>

#include "heap/profile.h"
#include "report/profile_report.h"
#include "report/table.h"

namespace cli {
namespace {

constexpr size_t kMostHeaderlessShown = 5;

// Returns the text of the library's own report.
std::string HeadOf(const DamagedObject& one) {
  const Damage& damage = one.damage;
  const bool freed = one.header.state == DebugHeader::State::kFreed;
  std::string text = fmt::format("{:#x}: the {}object", one.header.object, freed ? "freed " : "");
  if (damage.kind == Damage::Kind::kHeader) {
    return text +
           " has a damaged header: something wrote before its start, or past the end of the "
           "object before it";
  }
  text += fmt::format(" of {} was written ", CountOf(one.header.size, "byte"));
  switch (damage.kind) {
    case Damage::Kind::kBeforeStart:
      text += "before its start";
      break;
    case Damage::Kind::kAfterEnd:
      text += "after its end";
      break;
    default:
      text += "after the free";
  }
  text += fmt::format(", at offset {}: found {:#x}, expected {:#x}", damage.offset, damage.found,
                      damage.expected);
  if (damage.bytes > 1) {
    text += fmt::format(", and up to {} more", CountOf(damage.bytes - 1, "byte"));
  }
  return text;
}

std::string StackText(std::string_view heading, std::string_view function,
                      const std::vector<Address>& frames, const NameFrames& names) {
  if (frames.empty()) return {};
  std::string text = fmt::format("  {} {}:\n", heading, function);
  for (const Address call : frames) {
    for (const SourceFrame& frame : names(CallBefore(call))) {
      text += fmt::format("    {}\n", FrameText(frame));
    }
  }
  return text;
}

std::string BeforeText(const ObjectBefore& before) {
  const bool freed = before.header.state == DebugHeader::State::kFreed;
  return fmt::format("  the {}object before it: {} at {:#x}\n", freed ? "freed " : "",
                     CountOf(before.header.size, "byte"), before.header.object);
}

const char* KindName(Damage::Kind kind) {
  switch (kind) {
    case Damage::Kind::kNone:
      break;
    case Damage::Kind::kHeader:
      return "header";
    case Damage::Kind::kBeforeStart:
      return "before start";
    case Damage::Kind::kAfterEnd:
      return "after end";
    case Damage::Kind::kAfterFree:
      return "after free";
  }
  return "";
}

nlohmann::ordered_json BeforeJson(const ObjectBefore& before) {
  return {{"object", before.header.object},
          {"bytes", before.header.size},
          {"freed", before.header.state == DebugHeader::State::kFreed},
          {"allocated_by", DebugObjects::FunctionName(before.header.allocated_by)},
          {"allocated_at", before.allocated_at}};
}

nlohmann::ordered_json ObjectJson(const DamagedObject& one) {
  nlohmann::ordered_json json = {{"object", one.header.object},
                                 {"kind", KindName(one.damage.kind)}};
  if (one.before) json["before"] = BeforeJson(*one.before);
  if (one.damage.kind == Damage::Kind::kHeader) return json;
  json["bytes"] = one.header.size;
  json["offset"] = one.damage.offset;
  json["damaged_bytes"] = one.damage.bytes;
  json["found"] = one.damage.found;
  json["expected"] = one.damage.expected;
  json["allocated_by"] = DebugObjects::FunctionName(one.header.allocated_by);
  json["allocated_at"] = one.allocated_at;
  if (!one.freed_at.empty()) {
    json["freed_by"] = DebugObjects::FreeName(one.header.freed_by);
    json["freed_at"] = one.freed_at;
  }
  return json;
}

}  // namespace

std::string DamageText(const HeapDamage& found, const NameFrames& names) {
  std::string text;
  for (const DamagedObject& one : found.damaged_objects) {
    text += fmt::format("\n{}\n", HeadOf(one));
    text += StackText("allocated by", DebugObjects::FunctionName(one.header.allocated_by),
                      one.allocated_at, names);
    text += StackText("freed by", DebugObjects::FreeName(one.header.freed_by), one.freed_at, names);
    if (!one.before) continue;
    text += BeforeText(*one.before);
    text += StackText("allocated by", DebugObjects::FunctionName(one.before->header.allocated_by),
                      one.before->allocated_at, names);
  }
  const uint64_t more = found.damaged - found.damaged_objects.size();
  if (more > 0) text += fmt::format("\nand {} more\n", more);
  return text;
}

std::string CheckedText(const HeapDamage& found) {
  std::string text = fmt::format("Checked {} in use and {} in the queue of freed objects.\n",
                                 CountOf(found.live, "object"), found.freed);
  if (found.closed > 0) {
    text += fmt::format("{} freed at a page fence: nothing can write to them.\n",
                        CountOf(found.closed, "object"));
  }
  if (found.changing > 0) {
    text += fmt::format("{} being allocated or freed: not checked.\n",
                        CountOf(found.changing, "object"));
  }
  return text;
}

std::string UncheckedText(const HeapDamage& found, const std::string& missing) {
  std::string text;
  if (found.headerless > 0) {
    text = fmt::format("{} without a header, which {} just being allocated or {} overwritten:",
                       CountOf(found.headerless, "object"), found.headerless == 1 ? "is" : "are",
                       found.headerless == 1 ? "was" : "were");
    size_t shown = 0;
    for (const HeaderlessMemory& memory : found.headerless_memory) {
      if (shown++ == kMostHeaderlessShown) break;
      text += fmt::format(" {:#x}", memory.raw.start);
    }
    if (found.headerless > shown) text += " ...";
  }
  if (found.unreadable > 0) {
    if (!text.empty()) text += "; ";
    text += fmt::format("the memory of {} is not readable", CountOf(found.unreadable, "object"));
    if (!missing.empty()) text += ": " + missing;
  }
  return text;
}

void AddDamageJson(const HeapDamage& found, nlohmann::ordered_json* json) {
  (*json)["objects"] = found.live;
  (*json)["freed_objects"] = found.freed;
  (*json)["changing"] = found.changing;
  (*json)["fenced"] = found.closed;
  (*json)["without_header"] = found.headerless;
  (*json)["unreadable"] = found.unreadable;
  (*json)["damaged"] = found.damaged;
  auto& list = (*json)["list"] = nlohmann::ordered_json::array();
  for (const DamagedObject& one : found.damaged_objects) list.push_back(ObjectJson(one));
}

namespace {

constexpr double kMsPerSecond = 1000;
// Omits a smaller lower bound of the time, since it says little.
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
