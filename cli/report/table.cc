// SPDX-License-Identifier: BSD-3-Clause
#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace cli {

std::string Size(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string ExactSize(uint64_t bytes) {
  std::string text = Size(bytes);
  // One decimal is exact if ten times the size is a whole number of units.
  uint64_t unit = 1;
  while (unit < uint64_t{1} << 40 && bytes / unit >= 1024) unit <<= 10;
  if (unit > 1 && bytes % unit * 10 % unit != 0) text += fmt::format(" ({} bytes)", bytes);
  return text;
}

std::string Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return {};
  return fmt::format("{:.1f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string CountOf(uint64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

namespace {

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(tolower(c)); });
  return text;
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const std::string spaces(width - std::min(width, text.size()), ' ');
  return right ? spaces + text : text + spaces;
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string printable = text;
  for (char& c : printable) {
    if (c < ' ' || c > '~') c = '?';
  }
  return printable;
}

std::vector<const Row*> Arrange(const Table& table, size_t column, bool reversed,
                                const std::string& filter) {
  const std::string wanted = LowerCase(filter);
  std::vector<const Row*> rows;
  for (const Row& row : table.rows) {
    const bool matches =
        wanted.empty() || std::any_of(row.cells.begin(), row.cells.end(), [&](const Cell& cell) {
          return LowerCase(cell.text).find(wanted) != std::string::npos;
        });
    if (matches) rows.push_back(&row);
  }
  if (column >= table.columns.size()) return rows;
  const bool numbers = table.columns[column].numbers;
  const auto comes_first = [&](const Row* a, const Row* b) {
    const Cell& x = a->cells[column];
    const Cell& y = b->cells[column];
    return numbers ? x.number > y.number : x.text < y.text;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Row* a, const Row* b) {
    return reversed ? comes_first(b, a) : comes_first(a, b);
  });
  return rows;
}

std::vector<std::string> TableLines(const Table& table, const std::vector<const Row*>& rows,
                                    size_t width) {
  std::vector<size_t> widths;
  for (const Column& column : table.columns) widths.push_back(column.title.size());
  for (const Row* const row : rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], row->cells[i].text.size());
    }
  }
  const auto line_of = [&](auto text_of) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      if (i > 0) line += "  ";
      line += Padded(text_of(i), widths[i], table.columns[i].numbers);
    }
    return line.substr(0, std::min(width, line.find_last_not_of(' ') + 1));
  };
  std::vector<std::string> lines;
  lines.push_back(line_of([&](size_t i) { return table.columns[i].title; }));
  for (const Row* const row : rows) {
    lines.push_back(line_of([row](size_t i) { return row->cells[i].text; }));
  }
  return lines;
}

}  // namespace cli
