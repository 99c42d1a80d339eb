// SPDX-License-Identifier: BSD-3-Clause
#include "image/snapshot_facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

Json JsonOf(const Mapping& mapping) {
  return {{"start", mapping.start},
          {"end", mapping.end},
          {"file_offset", mapping.file_offset},
          {"readable", mapping.readable},
          {"writable", mapping.writable},
          {"shared", mapping.shared},
          {"name", mapping.name}};
}

Mapping MappingOf(const Json& json) {
  return {.start = json.at("start"),
          .end = json.at("end"),
          .file_offset = json.at("file_offset"),
          .readable = json.at("readable"),
          .writable = json.at("writable"),
          .name = json.at("name"),
          .shared = json.at("shared")};
}

}  // namespace

std::string SnapshotText(const SnapshotFacts& facts) {
  const ProcessInfo& info = facts.info;
  Json json = {{"format", kFormat},
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
               {"root", facts.root}};
  Json& mappings = json["mappings"] = Json::array();
  for (const Mapping& mapping : facts.mappings) mappings.push_back(JsonOf(mapping));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

SnapshotFacts ParseSnapshot(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != kFormat) {
      throw BadImage("the snapshot is of another version: use the command of that version");
    }
    SnapshotFacts facts;
    ProcessInfo& info = facts.info;
    info.pid = json.at("pid");
    info.name = json.at("name");
    info.executable = json.at("program");
    info.threads = json.at("threads");
    info.memory = {.resident_bytes = json.at("resident_bytes"),
                   .anonymous_bytes = json.at("anonymous_bytes"),
                   .swapped_bytes = json.at("swapped_bytes"),
                   .peak_resident_bytes = json.at("peak_resident_bytes")};
    facts.time_ns = json.at("time_ns");
    facts.clock = json.at("clock");
    facts.now_ms = json.at("now_ms");
    facts.root = json.at("root");
    for (const Json& mapping : json.at("mappings")) {
      facts.mappings.push_back(MappingOf(mapping));
      const Mapping& added = facts.mappings.back();
      if (added.start >= added.end) throw BadImage("the snapshot has a mapping that ends early");
    }
    std::sort(facts.mappings.begin(), facts.mappings.end(),
              [](const Mapping& a, const Mapping& b) { return a.start < b.start; });
    return facts;
  } catch (const Json::exception& error) {
    throw BadImage(std::string("the snapshot's note is damaged: ") + error.what());
  }
}

}  // namespace cli
