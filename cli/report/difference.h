// SPDX-License-Identifier: BSD-3-Clause
// Difference: the changes between two reports. A report is a set of named figures, from JSON that a
// command printed, from folded stacks, or from a profile for pprof.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cli {

struct Figures {
  std::map<std::string, double> bytes;
  std::map<std::string, double> counts;
  std::string process;  // "server, process 28470"; empty when the report has none
  std::string time;     // empty when it has none
};

// Parses the figures in a file's contents: JSON (the last one of several lines), folded stacks with
// a number after each, or a profile for pprof. Throws Failure for other contents; `name` is the
// file's name, for the message.
Figures ParseFigures(const std::string& contents, const std::string& name);

struct Change {
  std::string name;
  double before = 0;
  double after = 0;

  double by() const { return after - before; }
};
struct Difference {
  std::string headline;  // of the report's total
  // The figures that changed. The largest growth comes first, the largest decrease last.
  std::vector<Change> bytes;
  std::vector<Change> counts;
};
Difference Compare(const Figures& before, const Figures& after);

// Returns at most `rows` rows of each kind, from both ends.
std::string DifferenceText(const Difference& difference, const Figures& before,
                           const Figures& after, size_t rows);
nlohmann::ordered_json DifferenceJson(const Difference& difference);

}  // namespace cli
