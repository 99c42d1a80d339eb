// SPDX-License-Identifier: BSD-3-Clause

// bench_memory_table: runs bench_memory under this project's libraries and the same peers as
// bench_micro, and prints their figures side by side. Each library is measured once, since the
// figures hardly vary.
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/allocator.h"
#include "bench/common/machine.h"
#include "bench/common/process.h"

namespace tcmalloc::bench {
namespace {

constexpr char kHelp[] =
    R"(usage: bench_memory_table [--ours NAME=PATH]... [--peer NAME=PATH]...

Resident memory of bench_memory under each allocator, in these columns:

  once           KiB after one allocation
  8, 16, 40      bytes per live object of that size, 10 million of them
  burst 2, 10    KiB with 3 million objects of 48 bytes live, the second and the tenth time
  freed 2, 10    KiB after they are freed, the second and the tenth time
)";

constexpr unsigned kTimeoutSeconds = 120;
constexpr int kNameWidth = 18;
constexpr int kColumnWidth = 11;

struct Column {
  std::string_view heading;
  // bench_memory runs with `arguments`. The figure of the column follows the word `keyword` in the
  // line of its output that begins with `line`.
  std::vector<std::string> arguments;
  std::string_view line;
  std::string_view keyword;
};

// Adjacent columns with the same arguments share one run.
const std::vector<Column>& Columns() {
  static const std::vector<std::string> once = {"once"};
  static const std::vector<std::string> bursts = {"bursts", "48", "3000000", "10"};
  static const std::vector<Column> columns = {
      {"once", once, "rss_kib", "rss_kib"},
      {"8", {"live", "8", "10000000"}, "bytes_per_object", "bytes_per_object"},
      {"16", {"live", "16", "10000000"}, "bytes_per_object", "bytes_per_object"},
      {"40", {"live", "40", "10000000"}, "bytes_per_object", "bytes_per_object"},
      {"burst 2", bursts, "round 2 ", "full_kib"},
      {"burst 10", bursts, "round 10 ", "full_kib"},
      {"freed 2", bursts, "round 2 ", "freed_kib"},
      {"freed 10", bursts, "round 10 ", "freed_kib"},
  };
  return columns;
}

std::string FindFigure(const std::string& output, const Column& column) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(column.line)) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == column.keyword && words >> word) return word;
    }
  }
  throw std::runtime_error("bench_memory printed no " + std::string(column.keyword) + ":\n" +
                           output);
}

void PrintRow(const Allocator& allocator) {
  std::cout << std::left << std::setw(kNameWidth) << allocator.name << std::right << std::flush;
  if (allocator.missing()) {
    std::cout << "  missing (" << allocator.source << ")\n";
    return;
  }
  const std::vector<std::string>* measured = nullptr;
  ProcessResult result;
  for (const Column& column : Columns()) {
    if (measured == nullptr || *measured != column.arguments) {
      std::vector<std::string> command = {ThisFolder() + "/bench_memory"};
      command.insert(command.end(), column.arguments.begin(), column.arguments.end());
      result = RunPreloaded(command, allocator.preload, kTimeoutSeconds);
      measured = &column.arguments;
    }
    std::cout << std::setw(kColumnWidth)
              << (result.ok() ? FindFigure(result.output, column) : "failed") << std::flush;
    if (!result.ok()) std::cerr << allocator.name << ": " << result.failure << "\n";
  }
  std::cout << "\n";
}

int Main(const std::vector<std::string>& arguments) {
  std::vector<NamedLibrary> ours;
  std::vector<NamedLibrary> peers;
  for (size_t i = 0; i < arguments.size(); i += 2) {
    if (arguments[i] == "--help") {
      std::cout << kHelp;
      return EXIT_SUCCESS;
    }
    const std::optional<NamedLibrary> library =
        i + 1 < arguments.size() ? NamedLibrary::Parse(arguments[i + 1]) : std::nullopt;
    if (!library.has_value() || (arguments[i] != "--ours" && arguments[i] != "--peer")) {
      throw std::runtime_error("see bench_memory_table --help");
    }
    (arguments[i] == "--ours" ? ours : peers).push_back(*library);
  }
  for (const Fact& fact : DescribeMachine()) std::cout << fact.name << ": " << fact.value << "\n";
  std::cout << "\n" << std::setw(kNameWidth) << "";
  for (const Column& column : Columns()) {
    std::cout << std::setw(kColumnWidth) << column.heading;
  }
  std::cout << "\n";
  for (const Allocator& allocator : FindAllocators(ours, peers)) PrintRow(allocator);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) {
  try {
    return tcmalloc::bench::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "bench_memory_table: " << error.what() << "\n";
    return 2;
  }
}
