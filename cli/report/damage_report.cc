// SPDX-License-Identifier: BSD-3-Clause
#include "report/damage_report.h"

#include <fmt/format.h>

#include "heap/profile.h"
#include "report/profile_report.h"
#include "report/sizes.h"

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

}  // namespace cli
