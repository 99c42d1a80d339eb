// SPDX-License-Identifier: BSD-3-Clause
#include "report/pointee_text.h"

#include <fmt/format.h>

#include "report/table.h"

namespace cli {
namespace {

const char* KindName(Pointee::Kind kind) {
  switch (kind) {
    case Pointee::Kind::kNull:
      return "null";
    case Pointee::Kind::kMinus:
      return "minus";
    case Pointee::Kind::kNoAddress:
      return "no address";
    case Pointee::Kind::kHeap:
      return "heap";
    case Pointee::Kind::kAfterHeap:
      return "after the heap";
    case Pointee::Kind::kModule:
      return "module";
    case Pointee::Kind::kStack:
      return "stack";
    case Pointee::Kind::kMemory:
      return "memory";
    case Pointee::Kind::kNothing:
      return "no memory";
  }
  return "";
}

// Describes the object before an address that is in no object.
std::string BeforeText(const Pointee& pointee) {
  if (!pointee.before.has_value()) return {};
  const Object& object = pointee.before->object;
  return fmt::format("; the last object in use before it, of {} at {:#x}, ends {} before it",
                     CountOf(object.bytes, "byte"), object.start,
                     CountOf(pointee.address - (object.start + object.bytes), "byte"));
}

std::string InObjectText(const Pointee& pointee) {
  const Place& place = pointee.place;
  const uint64_t offset = pointee.address - place.object.start;
  if (place.kind == Place::Kind::kInUse && pointee.sample.has_value() &&
      pointee.sample->requested_bytes > 0 && offset >= pointee.sample->requested_bytes) {
    const uint64_t requested = pointee.sample->requested_bytes;
    return fmt::format("{} after the end of the {} that were requested of {}",
                       CountOf(offset - requested, "byte"), CountOf(requested, "byte"),
                       ObjectText(place));
  }
  if (offset == 0) return "the start of " + ObjectText(place);
  return fmt::format("{} into {}", CountOf(offset, "byte"), ObjectText(place));
}

// Describes an address in the accessible pages of a guarded object.
std::string InSlackText(const Pointee& pointee) {
  const SpanInfo& object = pointee.place.span;
  const bool before = pointee.address < object.start;
  const uint64_t distance =
      before ? object.start - pointee.address : pointee.address - (object.start + object.bytes);
  return fmt::format("{} {} a guarded object of {} at {:#x}, in use", CountOf(distance, "byte"),
                     before ? "before" : "after the end of", CountOf(object.bytes, "byte"),
                     object.start);
}

std::string InHeapText(const Pointee& pointee) {
  const Place& place = pointee.place;
  switch (place.kind) {
    case Place::Kind::kInUse:
    case Place::Kind::kFree:
    case Place::Kind::kCached:
    case Place::Kind::kQuarantined:
      return InObjectText(pointee);
    case Place::Kind::kGuardPage:
      return "in a page without access, beside guarded objects";
    case Place::Kind::kTail: {
      if (place.guarded) return InSlackText(pointee);
      const Address end = place.span.start + place.span.num_objects * place.span.object_bytes;
      return fmt::format("{} after the end of {} of {}", CountOf(pointee.address - end, "byte"),
                         place.span.large ? "an object" : "the last object of its pages, each",
                         CountOf(place.span.object_bytes, "byte"));
    }
    case Place::Kind::kFreeSpan:
    case Place::Kind::kOutside:
      break;
  }
  if (pointee.span_state.empty()) return "in the heap: " + pointee.problem;
  return fmt::format("in pages of the heap without objects, {} from {:#x} on: {}{}",
                     Size(place.span.bytes), place.span.start, pointee.span_state,
                     BeforeText(pointee));
}

std::string LooksLike(const Pointee& pointee) {
  if (pointee.tagged) return "; without them it is in the heap";
  if (!pointee.text.empty()) return fmt::format("; its bytes are the text \"{}\"", pointee.text);
  return {};
}

}  // namespace

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
    case Place::Kind::kQuarantined:
      return "freed, in quarantine";
    case Place::Kind::kGuardPage:
      return "no object";
  }
  return "";
}

std::string ObjectText(const Place& place) {
  return fmt::format("an object of {} at {:#x}, {}", CountOf(place.object.bytes, "byte"),
                     place.object.start,
                     place.kind == Place::Kind::kFree ? "free, in its span" : KindName(place));
}

std::string PointeeText(const Pointee& pointee) {
  switch (pointee.kind) {
    case Pointee::Kind::kNull:
      if (pointee.address == 0) return "null";
      return fmt::format("null and an offset of {}", CountOf(pointee.address, "byte"));
    case Pointee::Kind::kMinus:
      return "a small negative number: an error value, or null less an offset";
    case Pointee::Kind::kNoAddress:
      return "no address: it has upper bits that no address of a program has" + LooksLike(pointee);
    case Pointee::Kind::kHeap:
      return InHeapText(pointee);
    case Pointee::Kind::kAfterHeap:
      return fmt::format("{} after the end of memory of the heap{}",
                         CountOf(pointee.after_heap, "byte"), BeforeText(pointee));
    case Pointee::Kind::kModule:
      return "in " + pointee.name;
    case Pointee::Kind::kStack:
      return pointee.thread == 0 ? "on a stack"
                                 : fmt::format("on the stack of thread {}", pointee.thread);
    case Pointee::Kind::kMemory:
      return pointee.name.empty() ? "in memory outside of the heap" : "in " + pointee.name;
    case Pointee::Kind::kNothing:
      return "no memory" + LooksLike(pointee);
  }
  return {};
}

nlohmann::ordered_json PointeeJson(const Pointee& pointee) {
  nlohmann::ordered_json json{{"address", pointee.address}, {"where", KindName(pointee.kind)}};
  if (!pointee.name.empty()) json["name"] = pointee.name;
  if (!pointee.text.empty()) json["text"] = pointee.text;
  if (pointee.thread != 0) json["thread"] = pointee.thread;
  if (pointee.kind == Pointee::Kind::kAfterHeap) json["bytes_after"] = pointee.after_heap;
  if (!pointee.problem.empty()) json["incomplete"] = pointee.problem;
  if (pointee.kind == Pointee::Kind::kHeap && pointee.problem.empty()) {
    const Place& place = pointee.place;
    json["state"] = KindName(place);
    if (place.object.start != 0) {
      json["object"] = {{"start", place.object.start},
                        {"bytes", place.object.bytes},
                        {"offset", pointee.address - place.object.start}};
    }
    json["span"] = {{"start", place.span.start},
                    {"bytes", place.span.bytes},
                    {"state", pointee.span_state},
                    {"handed_out_ms_ago", pointee.age_ms}};
  }
  if (pointee.sample.has_value()) {
    json["sample"] = {{"requested_bytes", pointee.sample->requested_bytes},
                      {"frames", pointee.sample->frames}};
  }
  if (pointee.before.has_value()) {
    json["object_before"] = {{"start", pointee.before->object.start},
                             {"bytes", pointee.before->object.bytes}};
  }
  return json;
}

}  // namespace cli
