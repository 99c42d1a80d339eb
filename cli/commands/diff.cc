// SPDX-License-Identifier: BSD-3-Clause
// tcmalloc diff A B: the changes between two reports, largest first.
#include <elf.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "commands/commands.h"
#include "commands/open_process.h"
#include "heap/statistics.h"
#include "image/open_file.h"
#include "image/text.h"
#include "report/difference.h"
#include "report/statistics_report.h"

namespace cli {
namespace {

struct DiffOptions {
  std::string before;
  std::string after;
  bool all = false;
  bool json = false;
};

constexpr size_t kRows = 20;

// The report of 'stats' on a core file or a snapshot.
std::string ReportOf(const std::string& path) {
  std::string report;
  // With a folder, a file name is not mistaken for a PID.
  const ProcessArgument file{.name = path.find('/') == std::string::npos ? "./" + path : path,
                             .files = {}};
  WithProcess(file, [&](OpenProcess& process) {
    RequireHeap(process);
    nlohmann::ordered_json json = ProcessJson(process.info);
    json.update(StatisticsJson(ReadStatistics(Target(*process.image, *process.root))));
    report = DumpJson(json);
    return kSuccess;
  });
  return report;
}

Figures FiguresOf(const std::string& path) {
  if (path == "-") {
    return ParseFigures(std::string(std::istreambuf_iterator<char>(std::cin), {}),
                        "standard input");
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fdopen(OpenNamedFile(path), "r"), &fclose);
  std::array<char, 64 << 10> piece;
  std::string contents;
  for (size_t n = 0; (n = fread(piece.data(), 1, piece.size(), file.get())) > 0;) {
    contents.append(piece.data(), n);
    if (contents.starts_with(ELFMAG)) return ParseFigures(ReportOf(path), path);
  }
  if (ferror(file.get())) throw Failure(fmt::format("cannot read {}: {}", path, strerror(errno)));
  return ParseFigures(contents, path);
}

int Diff(const DiffOptions& options) {
  const Figures before = FiguresOf(options.before);
  const Figures after = FiguresOf(options.after);
  const Difference difference = Compare(before, after);
  if (options.json) {
    fmt::print("{}\n", DumpJson(DifferenceJson(difference)));
  } else {
    fmt::print("{}", DifferenceText(difference, before, after, options.all ? SIZE_MAX / 2 : kRows));
  }
  return kSuccess;
}

}  // namespace

void AddDiff(CLI::App& parser, int* status) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* const command = parser.add_subcommand(
      "diff",
      "What grew between two reports (--json of a command), snapshots, cores or folded profiles");
  command->add_option("before", options->before, "The first report; - for standard input")
      ->required()
      ->type_name("FILE");
  command->add_option("after", options->after, "The second report")->required()->type_name("FILE");
  command->add_flag("-a,--all", options->all, "All changes, not only the largest");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, status] { *status = Diff(*options); });
}

}  // namespace cli
