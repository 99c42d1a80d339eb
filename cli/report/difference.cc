// SPDX-License-Identifier: BSD-3-Clause
#include "report/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "image/image.h"
#include "image/text.h"
#include "report/profile_formats.h"
#include "report/table.h"

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

// Calls f for the first and the last rows, which have the largest growth and the largest decrease.
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

// Reads the figures of a report.

namespace {

using Json = nlohmann::ordered_json;

// Reports nest less deeply.
constexpr int kDeepest = 32;

class FigureCollector {
 public:
  explicit FigureCollector(Figures* figures) : figures_(*figures) {}

  // Recursive: the parser bounds the depth.
  void AddObject(const Json& object, const std::string& prefix) {
    for (const auto& [name, value] : object.items()) {
      if (value.is_number()) {
        Add(prefix, name, value.get<double>());
      } else if (value.is_object()) {
        AddObject(value, prefix + name + ", ");
      } else if (value.is_array()) {
        for (const Json& element : value) AddElement(element, name, prefix);
      }
    }
  }

 private:
  // Whether the member is a fact about the reading, or about one process, and not a figure to
  // compare.
  static bool IsIgnored(std::string_view name) {
    constexpr std::string_view kIgnored[] = {"pid",     "stopped_ms",      "exit_status",
                                             "seconds", "page_size_bytes", "object_size_bytes",
                                             "pages",   "more_than_pages", "bytes_per_second"};
    return std::find(std::begin(kIgnored), std::end(kIgnored), name) != std::end(kIgnored);
  }

  void Add(const std::string& prefix, const std::string& name, double value) {
    if (IsIgnored(name) || !std::isfinite(value)) return;
    if (name == "bytes" && !prefix.empty()) {
      figures_.bytes[prefix.substr(0, prefix.size() - 2)] += value;
    } else if (name.ends_with("bytes") || name.ends_with("bytes_total")) {
      figures_.bytes[prefix + name] += value;
    } else {
      figures_.counts[prefix + name] += value;
    }
  }

  // Adds an element of an array; one of its members is its name.
  void AddElement(const Json& element, const std::string& array, const std::string& prefix) {
    if (!element.is_object()) return;
    if (const auto size = element.find("object_size_bytes");
        size != element.end() && size->is_number()) {
      return AddSizeClass(element, size->get<double>(), prefix);
    }
    for (const char* const key : {"name", "what", "pages", "pid"}) {
      const auto found = element.find(key);
      if (found == element.end()) continue;
      const std::string text = found->is_string() ? found->get<std::string>() : DumpJson(*found);
      return AddObject(element, fmt::format("{}{} {}, ", prefix, array, text));
    }
  }

  void AddSizeClass(const Json& element, double size, const std::string& prefix) {
    for (const auto& [key, what] : {std::pair{"in_use_objects", "in use"},
                                    std::pair{"thread_cache_objects", "in thread caches"},
                                    std::pair{"central_cache_objects", "free in spans"}}) {
      const auto objects = element.find(key);
      if (objects == element.end() || !objects->is_number()) continue;
      figures_.bytes[fmt::format("{}objects of {} bytes, {}", prefix, size, what)] +=
          objects->get<double>() * size;
    }
  }

  Figures& figures_;
};

std::string TextOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// False when it is not JSON. Throws Failure when it nests too deeply; `name` is for the message.
bool ParseJson(const std::string& contents, const std::string& name, Figures* figures) {
  // Copying and printing JSON are recursive.
  const auto require_depth = [&name](int depth, Json::parse_event_t, Json&) {
    if (depth <= kDeepest) return true;
    throw Failure(fmt::format("{} is no report: its JSON nests more than {} deep", name, kDeepest));
  };
  Json json = Json::parse(contents, require_depth, false);
  if (json.is_discarded()) {
    // The contents are lines of JSON; the last complete one counts.
    std::istringstream lines(contents);
    for (std::string line; std::getline(lines, line);) {
      if (Json parsed = Json::parse(line, require_depth, false); parsed.is_object()) json = parsed;
    }
  }
  if (json.is_array()) json = Json{{"processes", json}};
  if (!json.is_object()) return false;
  FigureCollector(figures).AddObject(json, "");
  figures->time = TextOf(json, "time");
  if (const auto pid = json.find("pid"); pid != json.end() && pid->is_number()) {
    figures->process = fmt::format("{}, process {}", TextOf(json, "name"), pid->get<int64_t>());
  }
  return true;
}

// Parses lines like "main;f;g 4096". False when a line has another form.
bool ParseFolded(const std::string& contents, Figures* figures) {
  std::istringstream lines(contents);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    uint64_t bytes = 0;
    if (space == std::string::npos || space == 0) return false;
    const char* const end = line.data() + line.size();
    const auto [rest, error] = std::from_chars(line.data() + space + 1, end, bytes);
    if (error != std::errc() || rest != end) return false;
    figures->bytes[line.substr(0, space)] += static_cast<double>(bytes);
  }
  return !figures->bytes.empty();
}

// A file may have the names of another process.
Figures WithCleanNames(Figures figures) {
  for (auto* const sums : {&figures.bytes, &figures.counts}) {
    std::map<std::string, double> clean;
    for (const auto& [name, value] : *sums) clean[CleanText(name)] += value;
    *sums = std::move(clean);
  }
  figures.process = CleanText(figures.process);
  figures.time = CleanText(figures.time);
  return figures;
}

}  // namespace

Figures ParseFigures(const std::string& contents, const std::string& name) {
  Figures figures;
  if (ParseJson(contents, name, &figures)) return WithCleanNames(std::move(figures));
  figures = {};
  if (ParseFolded(contents, &figures)) return WithCleanNames(std::move(figures));
  if (auto stacks = ReadPprof(contents)) {
    figures.bytes = std::move(*stacks);
    return figures;
  }
  throw Failure(fmt::format(
      "{} is neither JSON of a command, nor folded stacks, nor a profile for pprof: write "
      "it with --json, for example 'tcmalloc stats PID --json >{}'",
      name, name));
}

}  // namespace cli
