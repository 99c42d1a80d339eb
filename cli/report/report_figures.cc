// SPDX-License-Identifier: BSD-3-Clause
// Reads the figures of a report.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "image/image.h"
#include "image/text.h"
#include "report/difference.h"
#include "report/pprof_reader.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

// Reports nest less deeply.
constexpr int kDeepest = 8;

class FigureCollector {
 public:
  explicit FigureCollector(Figures* figures) : figures_(*figures) {}

  void AddObject(const Json& object, const std::string& prefix, int depth) {
    if (depth > kDeepest) return;
    for (const auto& [name, value] : object.items()) {
      if (value.is_number()) {
        Add(prefix, name, value.get<double>());
      } else if (value.is_object()) {
        AddObject(value, prefix + name + ", ", depth + 1);
      } else if (value.is_array()) {
        for (const Json& element : value) AddElement(element, name, prefix, depth + 1);
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
  void AddElement(const Json& element, const std::string& array, const std::string& prefix,
                  int depth) {
    if (!element.is_object()) return;
    if (const auto size = element.find("object_size_bytes");
        size != element.end() && size->is_number()) {
      return AddSizeClass(element, size->get<double>(), prefix);
    }
    for (const char* const key : {"name", "what", "pages", "pid"}) {
      const auto found = element.find(key);
      if (found == element.end()) continue;
      const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
      return AddObject(element, fmt::format("{}{} {}, ", prefix, array, text), depth);
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

// False when it is not JSON.
bool ParseJson(const std::string& contents, Figures* figures) {
  Json json = Json::parse(contents, nullptr, false);
  if (json.is_discarded()) {
    // The contents are lines of JSON; the last complete one counts.
    std::istringstream lines(contents);
    for (std::string line; std::getline(lines, line);) {
      if (Json parsed = Json::parse(line, nullptr, false); parsed.is_object()) json = parsed;
    }
  }
  if (json.is_array()) json = Json{{"processes", json}};
  if (!json.is_object()) return false;
  FigureCollector(figures).AddObject(json, "", 0);
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

// The names in a file may be those of another process.
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
  if (ParseJson(contents, &figures)) return WithCleanNames(std::move(figures));
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
