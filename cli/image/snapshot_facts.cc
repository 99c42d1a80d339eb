// SPDX-License-Identifier: BSD-3-Clause
#include "image/snapshot_facts.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "image/text.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSnapshotFormat = 1;

Json JsonOf(const MappingUse& use) {
  const Mapping& mapping = use.mapping;
  return {{"start", mapping.start},
          {"end", mapping.end},
          {"file_offset", mapping.file_offset},
          {"readable", mapping.readable},
          {"writable", mapping.writable},
          {"shared", mapping.shared},
          {"executable", mapping.executable},
          {"name", mapping.name},
          {"resident_bytes", use.resident_bytes},
          {"anonymous_bytes", use.anonymous_bytes},
          {"lazily_freed_bytes", use.lazily_freed_bytes},
          {"hugepage_bytes", use.hugepage_bytes},
          {"hugetlb_bytes", use.hugetlb_bytes}};
}

std::string TextOf(const Json& json) { return CleanText(json.get<std::string>()); }

MappingUse MappingOf(const Json& json) {
  MappingUse use;
  use.mapping = {.start = json.at("start"),
                 .end = json.at("end"),
                 .file_offset = json.at("file_offset"),
                 .readable = json.at("readable"),
                 .writable = json.at("writable"),
                 .name = TextOf(json.at("name")),
                 .shared = json.at("shared"),
                 .executable = json.value("executable", false)};
  if (use.mapping.start >= use.mapping.end) throw BadImage("the snapshot has an empty mapping");
  use.resident_bytes = json.at("resident_bytes");
  use.anonymous_bytes = json.at("anonymous_bytes");
  use.lazily_freed_bytes = json.at("lazily_freed_bytes");
  use.hugepage_bytes = json.at("hugepage_bytes");
  use.hugetlb_bytes = json.at("hugetlb_bytes");
  return use;
}

void CheckOrder(bool in_order) {
  if (!in_order) throw BadImage("the snapshot's note is damaged: it is not in order");
}

// The parser calls it for each part of the note. A note has only whole numbers; to convert another
// one that is out of range would be undefined.
bool RequireWholeNumbers(int, Json::parse_event_t event, Json& part) {
  if (event == Json::parse_event_t::value && part.is_number_float()) {
    throw BadImage("the snapshot's note is damaged: a number is not a whole one");
  }
  return true;
}

}  // namespace

std::string SnapshotText(const SnapshotFacts& facts) {
  const ProcessInfo& info = facts.info;
  Json json = {{"format", kSnapshotFormat},
               {"pid", info.pid},
               {"name", info.name},
               {"program", info.executable},
               {"threads", info.threads},
               {"resident_bytes", info.memory.resident_bytes},
               {"anonymous_bytes", info.memory.anonymous_bytes},
               {"swapped_bytes", info.memory.swapped_bytes},
               {"peak_resident_bytes", info.memory.peak_resident_bytes},
               {"time_ns", facts.time_ns},
               {"clock", facts.clock},
               {"now_ms", facts.now_ms},
               {"root", facts.root},
               {"all_memory", facts.all_memory}};
  Json& mappings = json["mappings"] = Json::array();
  for (const MappingUse& use : facts.mappings) mappings.push_back(JsonOf(use));
  Json& pages = json["pages"] = Json::array();
  for (const PageRun& run : facts.pages) pages.push_back({run.first, run.pages, run.possible});
  Json& stacks = json["stacks"] = Json::array();
  for (const ThreadStack& stack : facts.stacks) stacks.push_back({stack.thread, stack.pointer});
  json["stack_bytes"] = facts.stack_bytes;
  Json& names = json["thread_names"] = Json::array();
  for (const auto& [thread, name] : facts.thread_names) names.push_back({thread, name});
  Json& functions = json["jit_functions"] = Json::array();
  for (const auto& [start, end, name] : facts.jit_functions) {
    functions.push_back({start, end, name});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

SnapshotFacts ParseSnapshot(const std::string& text) {
  try {
    const Json json = Json::parse(text, &RequireWholeNumbers);
    if (json.at("format") != kSnapshotFormat) {
      throw BadImage("the snapshot is of another version: use the command of that version");
    }
    SnapshotFacts facts;
    ProcessInfo& info = facts.info;
    info.pid = json.at("pid");
    info.name = TextOf(json.at("name"));
    info.executable = TextOf(json.at("program"));
    info.threads = json.at("threads");
    info.memory = {.resident_bytes = json.at("resident_bytes"),
                   .anonymous_bytes = json.at("anonymous_bytes"),
                   .swapped_bytes = json.at("swapped_bytes"),
                   .peak_resident_bytes = json.at("peak_resident_bytes")};
    facts.time_ns = json.at("time_ns");
    facts.clock = json.at("clock");
    facts.now_ms = json.at("now_ms");
    facts.root = json.at("root");
    facts.all_memory = json.value("all_memory", false);
    for (const Json& mapping : json.at("mappings")) {
      facts.mappings.push_back(MappingOf(mapping));
      const size_t n = facts.mappings.size();
      CheckOrder(n == 1 ||
                 facts.mappings[n - 2].mapping.end <= facts.mappings[n - 1].mapping.start);
    }
    uint64_t end = 0;
    for (const Json& run : json.at("pages")) {
      facts.pages.push_back({.first = run.at(0), .pages = run.at(1), .possible = run.at(2)});
      const PageRun& added = facts.pages.back();
      CheckOrder(added.first >= end && added.first + added.pages > added.first);
      end = added.first + added.pages;
    }
    for (const Json& stack : json.at("stacks")) {
      facts.stacks.push_back({.thread = stack.at(0), .pointer = stack.at(1)});
      const size_t n = facts.stacks.size();
      CheckOrder(n == 1 || facts.stacks[n - 2].pointer <= facts.stacks[n - 1].pointer);
    }
    facts.stack_bytes = json.at("stack_bytes");
    // A snapshot of an older command has no registers, and no names of threads and of compiled
    // functions.
    for (const Json& name : json.value("thread_names", Json::array())) {
      facts.thread_names.emplace(name.at(0), TextOf(name.at(1)));
    }
    for (const Json& one : json.value("jit_functions", Json::array())) {
      facts.jit_functions.push_back(
          {.start = one.at(0), .end = one.at(1), .name = TextOf(one.at(2))});
      const size_t n = facts.jit_functions.size();
      const JitFunction& added = facts.jit_functions.back();
      CheckOrder(added.start < added.end &&
                 (n == 1 || facts.jit_functions[n - 2].end <= added.start));
    }
    return facts;
  } catch (const Json::exception& error) {
    // The parser quotes what it cannot read.
    throw BadImage("the snapshot's note is damaged: " + CleanText(error.what()));
  }
}

}  // namespace cli
