// SPDX-License-Identifier: BSD-3-Clause
// Difference: what changed between two reports. A report is a set of named figures: of JSON that a
// command printed, of folded stacks, or of a profile for pprof.
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
  std::string process;  // "server, process 28470"; empty when the report names none
  std::string time;     // empty when it has none
};

// The figures of a file's contents: JSON (of several lines, the last), folded stacks with a number
// after each, or a profile for pprof. Throws Failure when it is none of them; `name` is the file's,
// for the message.
Figures ParseFigures(const std::string& contents, const std::string& name);

struct Change {
  std::string name;
  double before = 0;
  double after = 0;

  double by() const { return after - before; }
};
struct Difference {
  std::string headline;  // of the report's total
  // Without what did not change. What grew most comes first, what shrank most comes last.
  std::vector<Change> bytes;
  std::vector<Change> counts;
};
Difference Compare(const Figures& before, const Figures& after);

// At most `rows` rows of each kind, from both ends.
std::string DifferenceText(const Difference& difference, const Figures& before,
                           const Figures& after, size_t rows);
nlohmann::ordered_json DifferenceJson(const Difference& difference);

}  // namespace cli
