// SPDX-License-Identifier: BSD-3-Clause
#include "report/types_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "report/profile_report.h"
#include "report/statistics_report.h"
#include "report/table.h"

namespace cli {
namespace {

template <typename Key>
std::vector<std::pair<Key, ObjectSum>> Largest(const std::map<Key, ObjectSum>& sums) {
  std::vector<std::pair<Key, ObjectSum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  return rows;
}

std::string SizeName(uint64_t bytes) {
  return bytes == 0 ? "large" : fmt::format("{} bytes", bytes);
}

std::string RowText(const ObjectSum& sum, uint64_t whole, const std::string& name) {
  return fmt::format("  {:>11}  {:>6}  {:>12} objects  {}\n", Size(sum.bytes),
                     Share(sum.bytes, whole), sum.objects, name);
}

std::string MoreText(size_t rows, size_t most, std::string_view what) {
  if (rows <= most) return {};
  return fmt::format("  and {} more {}\n", rows - most, what);
}

}  // namespace

std::string TypesText(const ObjectTypes& types, const std::vector<CallSite>& sites,
                      const ProcessInfo& info, size_t most) {
  const uint64_t whole = types.all.bytes;
  std::string out = fmt::format(
      "Process {} ({}) holds {} objects of {}. The C++ type of {} of them, of {}, is known by "
      "their vtables.\n",
      info.pid, info.name, types.all.objects, Size(whole), types.typed.objects,
      Size(types.typed.bytes));
  const auto rows = Largest(types.types);
  if (!rows.empty()) out += "\nBy type:\n";
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const auto& [type, offset] = rows[i].first;
    out += RowText(rows[i].second, whole,
                   offset == 0 ? type : fmt::format("contains at offset {}: {}", offset, type));
  }
  out += MoreText(rows.size(), most, "types");
  if (!sites.empty()) {
    out += fmt::format(
        "\nNo type known, but sampled: {} objects of {} by call site (no estimates, these objects "
        "alone):\n{}",
        types.sampled.objects, Size(types.sampled.bytes), CallSitesText(sites, most, 2));
  }
  const auto sizes = Largest(types.sizes);
  if (!sizes.empty()) out += "\nNo type known, by size:\n";
  for (size_t i = 0; i < std::min(most, sizes.size()); ++i) {
    out += RowText(sizes[i].second, whole, SizeName(sizes[i].first));
  }
  return out + MoreText(sizes.size(), most, "sizes");
}

nlohmann::ordered_json TypesJson(const ObjectTypes& types, const std::vector<CallSite>& sites,
                                 const ProcessInfo& info, size_t most) {
  nlohmann::ordered_json json = ProcessJson(info);
  json["objects"] = types.all.objects;
  json["bytes"] = types.all.bytes;
  json["typed_objects"] = types.typed.objects;
  json["typed_bytes"] = types.typed.bytes;
  json["unreadable_objects"] = types.unread.objects;
  auto& by_type = json["types"] = nlohmann::ordered_json::array();
  for (const auto& [key, sum] : Largest(types.types)) {
    if (by_type.size() == most) break;
    by_type.push_back({{"type", key.first},
                       {"offset", key.second},
                       {"objects", sum.objects},
                       {"bytes", sum.bytes}});
  }
  std::vector<CallSite> largest = sites;
  largest.resize(std::min(most, largest.size()));
  json["call_sites"] = CallSitesJson(largest);
  auto& by_size = json["no_type_known"] = nlohmann::ordered_json::array();
  for (const auto& [bytes, sum] : Largest(types.sizes)) {
    if (by_size.size() == most) break;
    by_size.push_back({{"name", SizeName(bytes)}, {"objects", sum.objects}, {"bytes", sum.bytes}});
  }
  return json;
}

}  // namespace cli
