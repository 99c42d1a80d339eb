// SPDX-License-Identifier: BSD-3-Clause
// Numbers and tables for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cli {

// Formats numbers for people.

// "12.3 MiB"; small numbers in bytes.
std::string Size(uint64_t bytes);
// As Size, followed by the exact number if that differs.
std::string ExactSize(uint64_t bytes);
// "12.3%" of a whole; empty when the whole is 0.
std::string Share(uint64_t part, uint64_t whole);
// "1 object", "3 objects".
std::string CountOf(uint64_t n, const char* what);

// Table: rows of text that a person sorts and filters.

struct Cell {
  std::string text;
  // The number by which rows are sorted, if the column has numbers.
  double number = 0;
};

struct Column {
  std::string title;
  bool numbers = false;
};

struct Row {
  std::string id;
  std::vector<Cell> cells;  // as many as there are columns
};

struct Table {
  std::string name;
  std::vector<Column> columns;
  std::vector<Row> rows;
};

// Replaces characters that are not printable ASCII by '?'. Used for text of a process that a
// terminal shows.
std::string Printable(const std::string& text);

// Returns the rows that contain the filter in some cell, in upper or lower case, sorted by the
// column. Numbers are largest first, text alphabetically; `reversed` is the opposite. Rows that are
// equal stay in order.
std::vector<const Row*> Arrange(const Table& table, size_t column, bool reversed,
                                const std::string& filter);

// Returns the table as lines of at most `width` characters, the titles first. Numbers are aligned
// on the right; the last column gets the rest of the width.
std::vector<std::string> TableLines(const Table& table, const std::vector<const Row*>& rows,
                                    size_t width);

}  // namespace cli
