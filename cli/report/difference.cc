// SPDX-License-Identifier: BSD-3-Clause
#include "report/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/sizes.h"

namespace cli {
namespace {

std::vector<Change> Changes(const std::map<std::string, double>& before,
                            const std::map<std::string, double>& after) {
  std::map<std::string, Change> changes;
  for (const auto& [name, value] : before) changes[name] = {.name = name, .before = value};
  for (const auto& [name, value] : after) {
    Change& change = changes[name];
    change.name = name;
    change.after = value;
  }
  std::vector<Change> sorted;
  for (auto& [name, change] : changes) {
    if (change.before != change.after) sorted.push_back(std::move(change));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Change& a, const Change& b) { return a.by() > b.by(); });
  return sorted;
}

uint64_t Whole(double value) {
  return static_cast<uint64_t>(std::clamp(std::fabs(value), 0.0, 1e18));
}

std::string Signed(double bytes) { return (bytes < 0 ? "-" : "+") + Size(Whole(bytes)); }

std::string Headline(const Figures& before, const Figures& after) {
  constexpr std::pair<const char*, const char*> kTotals[] = {
      {"resident_bytes", "Resident memory is"},  // doctor
      {"in_use_bytes", "The program holds"},     // stats, run, timeline
      {"bytes", "The program holds"},            // objects
      {"process_resident_bytes", "Resident memory is"},
  };
  for (const auto& [name, what] : kTotals) {
    const auto a = before.bytes.find(name);
    const auto b = after.bytes.find(name);
    if (a == before.bytes.end() || b == after.bytes.end()) continue;
    const double by = b->second - a->second;
    return fmt::format("{} {} {}: {} before, {} after", what, Size(Whole(by)),
                       by < 0 ? "less" : "more", Size(Whole(a->second)), Size(Whole(b->second)));
  }
  double a = 0;
  double b = 0;
  for (const auto& [name, value] : before.bytes) a += value;
  for (const auto& [name, value] : after.bytes) b += value;
  return fmt::format("All stacks together: {}; {} before, {} after", Signed(b - a), Size(Whole(a)),
                     Size(Whole(b)));
}

// Calls f for the first and last rows: the largest growth and the largest decrease.
template <typename F>
void ForEachShown(const std::vector<Change>& changes, size_t rows, F f, std::string* out) {
  const auto grown = static_cast<size_t>(
      std::count_if(changes.begin(), changes.end(), [](const Change& c) { return c.by() > 0; }));
  const size_t first =
      std::min(grown, std::max(rows - rows / 4, rows - std::min(rows, changes.size() - grown)));
  const size_t last = std::min(changes.size() - grown, rows - std::min(rows, first));
  for (size_t i = 0; i < first; ++i) f(changes[i]);
  if (first + last < changes.size()) {
    *out += fmt::format("  ... {} smaller changes: --all\n", changes.size() - first - last);
  }
  for (size_t i = changes.size() - last; i < changes.size(); ++i) f(changes[i]);
}

}  // namespace

Difference Compare(const Figures& before, const Figures& after) {
  return {.headline = Headline(before, after),
          .bytes = Changes(before.bytes, after.bytes),
          .counts = Changes(before.counts, after.counts)};
}

std::string DifferenceText(const Difference& difference, const Figures& before,
                           const Figures& after, size_t rows) {
  std::string out = difference.headline + "\n";
  if (before.process != after.process && !before.process.empty() && !after.process.empty()) {
    out += fmt::format("Two processes: {}; {}\n", before.process, after.process);
  }
  if (!before.time.empty() && !after.time.empty()) {
    out += fmt::format("From {} to {}\n", before.time, after.time);
  }
  if (difference.bytes.empty()) out += "\nNo bytes changed.\n";
  const auto to = std::back_inserter(out);
  if (!difference.bytes.empty()) {
    fmt::format_to(to, "\n  {:>12} {:>12} {:>12}\n", "change", "before", "after");
    ForEachShown(
        difference.bytes, rows,
        [&](const Change& change) {
          fmt::format_to(to, "  {:>12} {:>12} {:>12}  {}\n", Signed(change.by()),
                         Size(Whole(change.before)), Size(Whole(change.after)), change.name);
        },
        &out);
  }
  if (!difference.counts.empty()) {
    out += "\n";
    ForEachShown(
        difference.counts, rows,
        [&](const Change& change) {
          fmt::format_to(to, "  {:>+12.0f} {:>12.0f} {:>12.0f}  {}\n", change.by(), change.before,
                         change.after, change.name);
        },
        &out);
  }
  return out;
}

nlohmann::ordered_json DifferenceJson(const Difference& difference) {
  nlohmann::ordered_json json = {{"headline", difference.headline}};
  for (const auto& [name, changes] :
       {std::pair{"bytes", &difference.bytes}, std::pair{"counts", &difference.counts}}) {
    auto& list = json[name] = nlohmann::ordered_json::array();
    for (const Change& change : *changes) {
      list.push_back({{"name", change.name},
                      {"before", change.before},
                      {"after", change.after},
                      {"change", change.by()}});
    }
  }
  return json;
}

}  // namespace cli
