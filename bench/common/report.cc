// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/report.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "bench/common/arguments.h"
#include "bench/common/fail.h"
#include "bench/common/resident.h"

namespace tcmalloc::bench {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    std::array<char, 8> escaped;
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < ' ') {
      snprintf(escaped.data(), escaped.size(), "\\u%04x", c);
      quoted += escaped.data();
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string Decimal(double value) {
  if (!std::isfinite(value)) Fail("a figure is not finite");
  std::array<char, 32> text;
  snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

std::string CommandLineArguments() {
  std::ifstream file("/proc/self/cmdline");
  std::string list;
  std::string argument;
  std::getline(file, argument, '\0');  // the program
  while (std::getline(file, argument, '\0')) {
    if (!list.empty()) list += ", ";
    list += Quoted(argument);
  }
  return '[' + list + ']';
}

// Returns the file whose malloc the program calls.
std::string MallocLibrary() {
  Dl_info info;
  std::array<char, PATH_MAX> path;
  if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) == 0 ||
      realpath(info.dli_fname, path.data()) == nullptr) {
    Fail("cannot tell which library serves malloc");
  }
  return path.data();
}

void WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) Fail("cannot write the report");
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

Report::Report(const char* program, const MeasuredPart& part)
    : peak_rss_kib_(PeakResidentKib()), program_(program), part_(part) {}

void Report::Value(const char* name, double value, const char* unit, Better better) {
  metrics_.push_back({.name = name, .value = value, .unit = unit, .better = better});
}

void Report::BeginSeries(const char* name, std::span<const char* const> columns) {
  series_ = ", \"series\": {\"name\": " + Quoted(name) + ", \"columns\": [";
  for (const char* const& column : columns) {
    if (&column != columns.data()) series_ += ", ";
    series_ += Quoted(column);
  }
  series_ += "], \"rows\": [";
}

void Report::AddRow(std::span<const double> row) {
  series_ += series_.back() == '[' ? "[" : ", [";
  for (const double& value : row) {
    if (&value != row.data()) series_ += ", ";
    series_ += Decimal(value);
  }
  series_ += ']';
}

void Report::Write() {
  std::string text = "{\"program\": " + Quoted(program_) + ", \"args\": " + CommandLineArguments() +
                     ", \"metrics\": [";
  for (const Metric& metric : metrics_) {
    if (&metric != metrics_.data()) text += ", ";
    text += "{\"name\": " + Quoted(metric.name) + ", \"value\": " + Decimal(metric.value) +
            ", \"unit\": " + Quoted(metric.unit) +
            ", \"better\": " + (metric.better == Better::kHigher ? "\"higher\"}" : "\"lower\"}");
  }
  text += "], \"wall_s\": " + Decimal(part_.wall_s()) + ", \"user_s\": " + Decimal(part_.user_s()) +
          ", \"sys_s\": " + Decimal(part_.sys_s()) +
          ", \"minor_faults\": " + std::to_string(part_.minor_faults()) +
          ", \"major_faults\": " + std::to_string(part_.major_faults()) +
          ", \"peak_rss_kib\": " + std::to_string(peak_rss_kib_) +
          ", \"malloc_library\": " + Quoted(MallocLibrary()) + series_ + "}\n";

  const char* const descriptor = getenv("BENCH_REPORT_FD");
  fflush(stdout);
  WriteAll(descriptor == nullptr
               ? STDOUT_FILENO
               : static_cast<int>(ParseNumber("BENCH_REPORT_FD", descriptor, 0, INT_MAX)),
           text);
}

void ReportTime(const char* program, const MeasuredPart& part) {
  Report report(program, part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Write();
}

}  // namespace tcmalloc::bench
