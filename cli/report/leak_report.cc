// SPDX-License-Identifier: BSD-3-Clause
#include "report/leak_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "formats/marker/sampled_sites.h"
#include "heap/profile.h"
#include "heap/told_to_checker.h"
#include "report/profile_report.h"

namespace cli {
namespace {

constexpr const char* kAgeTexts[] = {"less than 1 s ago", "1 s to 10 s ago",
                                     "10 s to 1 min ago", "1 min to 10 min ago",
                                     "10 min to 1 h ago", "1 h ago or earlier"};
static_assert(std::size(kAgeTexts) == tcmalloc::kNumAgeBuckets);

std::string CountText(uint64_t objects, uint64_t bytes) {
  return fmt::format("{} byte{} in {} object{}", bytes, bytes == 1 ? "" : "s", objects,
                     objects == 1 ? "" : "s");
}

std::string FramesText(const std::vector<Address>& frames, const char* indent,
                       const NameFrames& names) {
  std::string out;
  for (const Address frame : frames) {
    for (const SourceFrame& each : names(CallBefore(frame))) {
      fmt::format_to(std::back_inserter(out), "{}{}\n", indent, FrameText(each));
    }
  }
  return out;
}

nlohmann::ordered_json FramesJson(const std::vector<Address>& frames, const NameFrames& names) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Address frame : frames) {
    for (const SourceFrame& each : names(CallBefore(frame))) {
      nlohmann::ordered_json& entry = json.emplace_back();
      entry["address"] = CallBefore(frame);
      entry["function"] = each.function;
      if (!each.file.empty()) entry["file"] = each.file;
      if (each.line != 0) entry["line"] = each.line;
    }
  }
  return json;
}

}  // namespace

std::vector<LeakGroup> GroupLeaks(const LeakSearch& search, const Target& target) {
  // If there is a stack, it alone identifies a group, else the size and the age.
  using Key = std::pair<std::vector<Address>, std::pair<uint64_t, size_t>>;
  std::map<Key, LeakGroup> found;
  std::map<Address, std::vector<Address>> sites;
  for (const Leak& leak : search.leaks) {
    Key key;
    uint64_t bytes = leak.bytes;
    if (leak.site != 0) {
      auto& frames = sites[leak.site];
      if (frames.empty()) frames = ReadSite(target, leak.site);
      key.first = frames;
      bytes = leak.requested_bytes;
    } else if (leak.sample != 0) {
      const Sample sample = ReadSample(target, leak.sample);
      key.first = sample.frames;
      bytes = sample.requested_bytes;
    }
    if (key.first.empty()) {
      key.second = {leak.bytes,
                    static_cast<size_t>(tcmalloc::AgeBucketOf(search.now_ms - leak.handed_out_ms))};
    }
    LeakGroup& group = found[key];
    if (group.objects == 0 || (leak.direct && group.direct_objects == 0)) {
      group.example = leak.start;
      group.nearest_frames.clear();
      if (key.first.empty() && leak.nearest != 0) {
        group.nearest_frames = ReadSample(target, leak.nearest).frames;
      }
    }
    group.frames = key.first;
    group.object_bytes = key.second.first;
    group.age = key.second.second;
    ++group.objects;
    group.bytes += bytes;
    group.direct_objects += leak.direct;
    if (leak.direct) group.direct_bytes += bytes;
    group.addresses.push_back(leak.start);
  }
  std::vector<LeakGroup> groups;
  for (auto& [key, group] : found) groups.push_back(std::move(group));
  std::stable_sort(groups.begin(), groups.end(), [](const LeakGroup& a, const LeakGroup& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.objects > b.objects;
  });
  return groups;
}

namespace {

// Adds up groups whose stacks differ in addresses only. The largest comes first.
std::vector<LeakGroup> WithoutTwins(const std::vector<LeakGroup>& groups, const NameFrames& names) {
  std::map<std::string, size_t> by_text;
  std::vector<LeakGroup> rows;
  for (const LeakGroup& group : groups) {
    if (!group.frames.empty()) {
      const auto [at, is_new] =
          by_text.try_emplace(FramesText(group.frames, "", names), rows.size());
      if (!is_new) {
        LeakGroup& row = rows[at->second];
        if (row.direct_objects == 0 && group.direct_objects > 0) row.example = group.example;
        row.objects += group.objects;
        row.bytes += group.bytes;
        row.direct_objects += group.direct_objects;
        row.direct_bytes += group.direct_bytes;
        continue;
      }
    }
    rows.push_back(group);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const LeakGroup& a, const LeakGroup& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.objects > b.objects;
  });
  return rows;
}

}  // namespace

std::string LeakGroupsText(const std::vector<LeakGroup>& all, size_t most,
                           const NameFrames& names) {
  const std::vector<LeakGroup> groups = WithoutTwins(all, names);
  std::string out;
  const auto to = std::back_inserter(out);
  for (size_t i = 0; i < std::min(most, groups.size()); ++i) {
    const LeakGroup& group = groups[i];
    fmt::format_to(to, "  {}", CountText(group.objects, group.bytes));
    if (group.direct_objects == 0) {
      out += ", all reachable from other leaked objects";
    } else if (group.direct_objects < group.objects) {
      fmt::format_to(to, ", directly leaked: {}",
                     CountText(group.direct_objects, group.direct_bytes));
    }
    if (group.frames.empty()) {
      fmt::format_to(to, ", each of {} bytes, in spans handed out {}\n", group.object_bytes,
                     kAgeTexts[group.age]);
    } else {
      out += ", allocated from\n" + FramesText(group.frames, "    ", names);
    }
    if (!group.nearest_frames.empty()) {
      out += "    a hint, not evidence: the nearest sampled object of this size, allocated from\n";
      out += FramesText(group.nearest_frames, "      ", names);
    }
    fmt::format_to(to, "    one of them is at {:#x}\n", group.example);
  }
  if (groups.size() > most) fmt::format_to(to, "  and {} more\n", groups.size() - most);
  return out;
}

nlohmann::ordered_json LeakGroupsJson(const std::vector<LeakGroup>& groups, bool objects,
                                      const NameFrames& names) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LeakGroup& group : groups) {
    nlohmann::ordered_json& site = json.emplace_back();
    site["objects"] = group.objects;
    site["bytes"] = group.bytes;
    site["direct_objects"] = group.direct_objects;
    site["direct_bytes"] = group.direct_bytes;
    if (group.frames.empty()) {
      const auto age = static_cast<tcmalloc::AgeBucket>(group.age);
      site["object_size"] = group.object_bytes;
      site["span_age_ms"]["at_least"] = tcmalloc::AgeAtLeastMs(age);
      if (age != tcmalloc::AgeBucket::kOlder) {
        site["span_age_ms"]["below"] = tcmalloc::AgeBelowMs(age);
      }
    }
    site["frames"] = FramesJson(group.frames, names);
    if (!group.nearest_frames.empty()) {
      site["nearest_frames"] = FramesJson(group.nearest_frames, names);
    }
    site["example"] = group.example;
    if (objects) site["addresses"] = group.addresses;
  }
  return json;
}

}  // namespace cli
