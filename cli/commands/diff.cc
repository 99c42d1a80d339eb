// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc diff A B: what changed between two reports, most first.
#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "commands/commands.h"
#include "image/image.h"
#include "report/difference.h"

namespace cli {
namespace {

struct Options {
  std::string before;
  std::string after;
  bool all = false;
  bool json = false;
};

constexpr size_t kRows = 20;

Figures FiguresOf(const std::string& path) {
  if (path == "-") {
    return ParseFigures(std::string(std::istreambuf_iterator<char>(std::cin), {}),
                        "standard input");
  }
  std::ifstream file(path, std::ios::binary);
  const std::string contents(std::istreambuf_iterator<char>(file), {});
  if (!file) throw Failure(fmt::format("cannot read {}: {}", path, strerror(errno)));
  return ParseFigures(contents, path);
}

int Diff(const Options& options) {
  const Figures before = FiguresOf(options.before);
  const Figures after = FiguresOf(options.after);
  const Difference difference = Compare(before, after);
  if (options.json) {
    fmt::print("{}\n", DifferenceJson(difference).dump());
  } else {
    fmt::print("{}", DifferenceText(difference, before, after, options.all ? SIZE_MAX / 2 : kRows));
  }
  return kSuccess;
}

}  // namespace

void AddDiff(CLI::App& parser, int* status) {
  const auto options = std::make_shared<Options>();
  CLI::App* const command = parser.add_subcommand(
      "diff", "What grew between two reports (--json of a command) or folded profiles");
  command->add_option("before", options->before, "The first report; - for standard input")
      ->required()
      ->type_name("FILE");
  command->add_option("after", options->after, "The second report")->required()->type_name("FILE");
  command->add_flag("-a,--all", options->all, "All changes, not only the largest");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] { *status = Diff(*options); });
}

}  // namespace cli
