// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/report.h"

#include <array>
#include <cstdio>
#include <iomanip>
#include <string_view>

#include "bench/micro/patterns.h"

namespace tcmalloc::bench {
namespace {

constexpr int kNameWidth = 18;
constexpr int kNumberWidth = 8;
constexpr int kRangeWidth = 15;
constexpr int kRatioWidth = 24;

std::string Number(double value, int decimals) {
  std::array<char, 64> text;
  const int length = snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return std::string(text.data(), static_cast<size_t>(length));
}

std::string Range(const Interval& interval, int decimals) {
  return "[" + Number(interval.low, decimals) + ", " + Number(interval.high, decimals) + "]";
}

std::string Describe(const RatioEstimate& ratio) {
  return Number(ratio.median, 3) + " " + Range(ratio.interval, 3);
}

std::string DescribeState(const Comparison& comparison, size_t allocator) {
  const Allocator& described = comparison.allocators()[allocator];
  if (described.missing()) return "missing (" + described.source + ")";
  return comparison.Failure(allocator);
}

const Pattern& PatternAt(const Comparison& comparison, size_t position) {
  return Patterns()[comparison.options().patterns[position]];
}

void PrintRow(std::ostream& out, const Comparison& comparison, size_t row, size_t pattern) {
  const std::vector<Allocator>& allocators = comparison.allocators();
  out << "  " << std::left << std::setw(kNameWidth) << allocators[row].name << std::right;
  const std::optional<Summary> summary = comparison.Summarize(row, pattern);
  if (!summary.has_value()) {
    out << "  " << DescribeState(comparison, row) << "\n";
    return;
  }
  out << std::setw(kNumberWidth) << Number(summary->median, 2) << std::setw(kNumberWidth)
      << Number(summary->fastest_slice, 2) << std::setw(kRangeWidth)
      << Range(summary->quartiles, 2);
  for (size_t ours = 0; ours < allocators.size(); ++ours) {
    if (!allocators[ours].ours || allocators[row].ours) continue;
    const std::optional<RatioEstimate> ratio = comparison.Ratio(ours, row, pattern);
    out << std::setw(kRatioWidth) << (ratio.has_value() ? Describe(*ratio) : "-");
  }
  out << "\n";
}

void PrintVerdict(std::ostream& out, const Comparison& comparison, const Verdict& verdict) {
  const std::vector<Allocator>& allocators = comparison.allocators();
  out << "  not slower: ";
  if (!verdict.ratio.has_value()) {
    out << "unknown  " << allocators[verdict.allocator].name << ": " << verdict.reason << "\n";
    return;
  }
  out << (verdict.not_slower() ? "yes" : "no ") << "  " << allocators[verdict.allocator].name
      << " / " << allocators[*verdict.fastest_peer].name
      << " (the pilot's fastest): " << Describe(*verdict.ratio) << "\n";
}

// ---- JSON ----

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      quoted += '\\';
      quoted += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      std::array<char, 8> escape;
      snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(character));
      quoted += escape.data();
    } else {
      quoted += character;
    }
  }
  return quoted + "\"";
}

// Returns "a, b, c" of describe(item).
template <typename Items, typename Describe>
std::string List(const Items& items, const Describe& describe, std::string_view separator = ", ") {
  std::string list;
  for (const auto& item : items) {
    if (!list.empty()) list += separator;
    list += describe(item);
  }
  return list;
}

std::string JsonInterval(const Interval& interval) {
  return "[" + Number(interval.low, 5) + ", " + Number(interval.high, 5) + "]";
}

std::string JsonAllocator(const Comparison& comparison, size_t index) {
  const Allocator& allocator = comparison.allocators()[index];
  return "{\"name\": " + Quote(allocator.name) +
         ", \"ours\": " + (allocator.ours ? "true" : "false") +
         ", \"library\": " + Quote(allocator.library) +
         ", \"version\": " + Quote(comparison.Version(index)) +
         ", \"failure\": " + Quote(comparison.Failure(index)) + "}";
}

std::string JsonSample(const Comparison& comparison, size_t allocator, const Sample& sample) {
  std::string json = "{\"allocator\": " + Quote(comparison.allocators()[allocator].name);
  if (!sample.ok()) return json + ", \"failure\": " + Quote(sample.failure) + "}";
  for (size_t i = 0; i < sample.times.size(); ++i) {
    json += ", " + Quote(PatternAt(comparison, i).name) + ": [" +
            List(sample.times[i].slices, [](double time) { return Number(time, 4); }) + "]";
  }
  return json + "}";
}

std::string JsonRound(const Comparison& comparison, const Round& round) {
  const auto describe = [&](size_t allocator) {
    return JsonSample(comparison, allocator, *round.samples[allocator]);
  };
  return std::string("{\"pilot\": ") + (round.pilot ? "true" : "false") +
         ", \"in_order\": [\n      " + List(round.order, describe, ",\n      ") + "]}";
}

std::string JsonVerdict(const Comparison& comparison, const Verdict& verdict) {
  const std::vector<Allocator>& allocators = comparison.allocators();
  std::string json = "{\"pattern\": " + Quote(PatternAt(comparison, verdict.pattern).name) +
                     ", \"allocator\": " + Quote(allocators[verdict.allocator].name);
  if (!verdict.ratio.has_value()) return json + ", \"unknown\": " + Quote(verdict.reason) + "}";
  return json + ", \"fastest_peer\": " + Quote(allocators[*verdict.fastest_peer].name) +
         ", \"median_ratio\": " + Number(verdict.ratio->median, 5) +
         ", \"interval_95\": " + JsonInterval(verdict.ratio->interval) +
         ", \"not_slower\": " + (verdict.not_slower() ? "true" : "false") + "}";
}

std::string JsonPattern(const Comparison& comparison, size_t position) {
  const Pattern& pattern = PatternAt(comparison, position);
  return "{\"name\": " + Quote(pattern.name) + ", \"description\": " + Quote(pattern.description) +
         ", \"pairs_per_slice\": " +
         std::to_string(pattern.pairs_per_slice / comparison.options().divisor) + "}";
}

std::vector<size_t> Indices(size_t count) {
  std::vector<size_t> indices(count);
  for (size_t i = 0; i < count; ++i) indices[i] = i;
  return indices;
}

}  // namespace

void PrintMachine(std::ostream& out, const std::vector<Fact>& facts) {
  for (const Fact& fact : facts) {
    out << std::left << std::setw(kNameWidth + 4) << fact.name << std::right << fact.value << "\n";
  }
}

void PrintAllocators(std::ostream& out, const Comparison& comparison) {
  for (size_t i = 0; i < comparison.allocators().size(); ++i) {
    const Allocator& allocator = comparison.allocators()[i];
    out << "  " << std::left << std::setw(kNameWidth + 2) << allocator.name << std::right;
    if (allocator.missing()) {
      out << DescribeState(comparison, i) << "\n";
    } else {
      out << allocator.library << ", version " << comparison.Version(i) << "\n";
    }
  }
}

void PrintTables(std::ostream& out, const Comparison& comparison) {
  const std::vector<Allocator>& allocators = comparison.allocators();
  const std::vector<Verdict> verdicts = comparison.Verdicts();
  for (size_t pattern = 0; pattern < comparison.options().patterns.size(); ++pattern) {
    out << "\n"
        << PatternAt(comparison, pattern).name << ": " << PatternAt(comparison, pattern).description
        << "\n  " << std::left << std::setw(kNameWidth) << "ns per pair" << std::right
        << std::setw(kNumberWidth) << "median" << std::setw(kNumberWidth) << "min"
        << std::setw(kRangeWidth) << "quartiles";
    for (const Allocator& allocator : allocators) {
      if (allocator.ours) out << std::setw(kRatioWidth) << allocator.name + " / it";
    }
    out << "\n";
    for (size_t row = 0; row < allocators.size(); ++row) PrintRow(out, comparison, row, pattern);
    for (const Verdict& verdict : verdicts) {
      if (verdict.pattern == pattern) PrintVerdict(out, comparison, verdict);
    }
  }
}

std::string Objections(const Comparison& comparison) {
  std::string objections;
  for (size_t i = 0; i < comparison.allocators().size(); ++i) {
    const Allocator& allocator = comparison.allocators()[i];
    const std::string failure = comparison.Failure(i);
    if (!allocator.required || failure.empty()) continue;
    objections += "check: " + allocator.name + " " + failure + " (" + allocator.source + ")\n";
  }
  for (const Verdict& verdict : comparison.Verdicts()) {
    if (!verdict.ratio.has_value() || verdict.not_slower()) continue;
    objections += "check: " + comparison.allocators()[verdict.allocator].name + " is slower on " +
                  std::string(PatternAt(comparison, verdict.pattern).name) + "\n";
  }
  return objections;
}

void WriteJson(std::ostream& out, const Comparison& comparison, const std::vector<Fact>& facts,
               const std::vector<std::string>& command_line) {
  const RunOptions& options = comparison.options();
  const auto allocator = [&](size_t index) { return JsonAllocator(comparison, index); };
  const auto pattern = [&](size_t position) { return JsonPattern(comparison, position); };
  const auto round = [&](const Round& one) { return JsonRound(comparison, one); };
  const auto verdict = [&](const Verdict& one) { return JsonVerdict(comparison, one); };
  const auto fact = [](const Fact& one) { return Quote(one.name) + ": " + Quote(one.value); };
  constexpr std::string_view kLines = ",\n    ";
  out << "{\n  \"command\": [" << List(command_line, Quote) << "],\n"
      << "  \"machine\": {\n    " << List(facts, fact, kLines) << "},\n"
      << "  \"seed\": " << options.seed << ",\n"
      << "  \"cpu\": " << options.cpu << ",\n"
      << "  \"pinned\": " << (comparison.pinned() ? "true" : "false") << ",\n"
      << "  \"unit\": \"nanoseconds per pair of malloc and free, one figure per slice\",\n"
      << "  \"patterns\": [\n    " << List(Indices(options.patterns.size()), pattern, kLines)
      << "],\n"
      << "  \"allocators\": [\n    "
      << List(Indices(comparison.allocators().size()), allocator, kLines) << "],\n"
      << "  \"rounds\": [\n    " << List(comparison.rounds(), round, kLines) << "],\n"
      << "  \"verdicts\": [\n    " << List(comparison.Verdicts(), verdict, kLines) << "]\n}\n";
}

}  // namespace tcmalloc::bench
