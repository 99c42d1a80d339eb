// SPDX-License-Identifier: BSD-3-Clause
#include "report/diagnosis_report.h"

#include <fmt/format.h>

#include <iterator>

#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

// Smaller shares of the resident memory are not explained.
constexpr uint64_t kExplainedPart = 50;

}  // namespace

std::string DiagnosisText(const Diagnosis& diagnosis, const Facts& facts, const ProcessInfo& info) {
  const uint64_t sum = diagnosis.resident_bytes;
  std::string out = fmt::format("Process {}, {}: {}{} resident", info.pid, info.name,
                                facts.resident_is_minimum ? "at least " : "", Size(sum));
  const auto to = std::back_inserter(out);
  if (facts.other_malloc.empty()) {
    fmt::format_to(to, "; {} ({}) are objects that the program holds", Size(facts.heap.in_use),
                   Share(facts.heap.in_use, sum));
  } else {
    fmt::format_to(to, ". It runs on {}, not on this TCMalloc: the figures are the kernel's",
                   facts.other_malloc);
  }
  fmt::format_to(to, ".\n{}\n", diagnosis.answer);
  if (!diagnosis.growth.empty()) out += diagnosis.growth + "\n";
  if (!diagnosis.remedy.empty()) fmt::format_to(to, "What to do: {}.\n", diagnosis.remedy);
  out += "\n";
  for (const ResidentShare& share : diagnosis.shares) {
    fmt::format_to(to, "  {:>11}  {:>6}  {}\n", Size(share.bytes), Share(share.bytes, sum),
                   share.what);
    if (share.bytes < sum / kExplainedPart) continue;
    if (!share.detail.empty()) fmt::format_to(to, "{:23}{}\n", "", share.detail);
    if (!share.remedy.empty()) fmt::format_to(to, "{:23}-> {}\n", "", share.remedy);
  }
  fmt::format_to(to, "  {:>11}  {:>6}  {}resident memory of the process\n", Size(sum),
                 Share(sum, sum), facts.resident_is_minimum ? "at least, " : "");
  if (!diagnosis.notes.empty()) out += "\n";
  for (const std::string& note : diagnosis.notes) out += note + "\n";
  return out;
}

nlohmann::ordered_json DiagnosisJson(const Diagnosis& diagnosis, const Facts& facts,
                                     const ProcessInfo& info) {
  nlohmann::ordered_json json = ProcessJson(info);
  json["allocator"] = facts.other_malloc.empty() ? "tcmalloc" : facts.other_malloc;
  json["verdict"] = diagnosis.verdict;
  json["answer"] = diagnosis.answer;
  json["remedy"] = diagnosis.remedy;
  json["resident_bytes"] = diagnosis.resident_bytes;
  json["resident_is_minimum"] = facts.resident_is_minimum;
  if (facts.other_malloc.empty()) {
    json["in_use_bytes"] = facts.stats.figure("in_use_bytes");
    json["not_resident_bytes"] = facts.heap.untouched;
  }
  auto& shares = json["shares"] = nlohmann::ordered_json::array();
  for (const ResidentShare& share : diagnosis.shares) {
    shares.push_back({{"name", share.name},
                      {"bytes", share.bytes},
                      {"what", share.what},
                      {"detail", share.detail},
                      {"remedy", share.remedy}});
  }
  if (facts.growth.has_value()) {
    const Growth& growth = *facts.growth;
    auto& written = json["growth"] = {{"seconds", growth.seconds},
                                      {"in_use_bytes", growth.in_use_bytes},
                                      {"bytes_per_second", growth.bytes_per_second()},
                                      {"steady", growth.steady}};
    auto& parts = written["parts"] = nlohmann::ordered_json::array();
    for (const Growth::Part& part : growth.parts) {
      parts.push_back({{"what", part.what}, {"bytes", part.bytes}});
    }
  }
  json["notes"] = diagnosis.notes;
  return json;
}

}  // namespace cli
