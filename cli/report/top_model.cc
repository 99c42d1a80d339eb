// SPDX-License-Identifier: BSD-3-Clause
#include "report/top_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "report/table.h"

namespace cli {
namespace {

constexpr double kShortest = 0.25;
constexpr double kLongest = 64;
constexpr size_t kHistoryName = 24;
// The least range of the scale, a part of the largest value: 1 %.
constexpr double kLeastRangePart = 100;

constexpr const char* kHelp[] = {
    "up, down, page up, page down, home, end    select a row",
    "left, right, or < and >                    sort by another column",
    "r                                          reverse the order",
    "/                                          show rows that contain a text; Enter keeps it",
    "Tab                                        the next table",
    "Enter                                      open the selected process",
    "Escape                                     end the filter, or return to the processes",
    "p                                          pause",
    "+, -                                       refresh more, less often",
    "q                                          quit",
};

}  // namespace

void TopModel::SetData(TopData data) {
  data_ = std::move(data);
  problem_.clear();
  if (table_ >= data_.tables.size()) table_ = 0;
}

void TopModel::SetProblem(std::string problem) { problem_ = Printable(problem); }

const Table* TopModel::table() const {
  return data_.tables.empty() ? nullptr : &data_.tables[table_];
}

TopModel::Sorting TopModel::SortingOfTable() const {
  const auto found = sortings_.find(table_);
  if (found != sortings_.end()) return found->second;
  // The default is to sort by the first column of numbers.
  Sorting sorting;
  if (table() == nullptr) return sorting;
  const std::vector<Column>& columns = table()->columns;
  const auto first = std::find_if(columns.begin(), columns.end(),
                                  [](const Column& column) { return column.numbers; });
  if (first != columns.end()) sorting.column = static_cast<size_t>(first - columns.begin());
  return sorting;
}

std::vector<const Row*> TopModel::Rows() const {
  if (table() == nullptr) return {};
  const Sorting sorting = SortingOfTable();
  return Arrange(*table(), sorting.column, sorting.reversed, filter_);
}

std::string TopModel::selected() const {
  const std::vector<const Row*> rows = Rows();
  for (const Row* const row : rows) {
    if (row->id == selected_) return selected_;
  }
  return rows.empty() ? std::string() : rows[std::min(position_, rows.size() - 1)]->id;
}

void TopModel::Move(int64_t by) {
  const std::vector<const Row*> rows = Rows();
  if (rows.empty()) return;
  const std::string now = selected();
  int64_t at = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->id == now) at = static_cast<int64_t>(i);
  }
  at = std::clamp<int64_t>(at + by, 0, static_cast<int64_t>(rows.size()) - 1);
  position_ = static_cast<size_t>(at);
  selected_ = rows[position_]->id;
}

void TopModel::MoveSorting(int64_t by) {
  if (table() == nullptr || table()->columns.empty()) return;
  Sorting sorting = SortingOfTable();
  const auto columns = static_cast<int64_t>(table()->columns.size());
  const int64_t column = (static_cast<int64_t>(sorting.column) + by + columns) % columns;
  sorting = {.column = static_cast<size_t>(column)};
  sortings_[table_] = sorting;
}

void TopModel::HandleFilterKey(int key) {
  if (key == kKeyEnter) {
    typing_filter_ = false;
  } else if (key == kKeyEscape) {
    typing_filter_ = false;
    filter_.clear();
  } else if (key == kKeyBackspace) {
    if (!filter_.empty()) filter_.pop_back();
  } else if (key >= ' ' && key <= '~') {
    filter_ += static_cast<char>(key);
  }
}

TopRequest TopModel::HandleKey(int key) {
  if (key == kNoKey) return TopRequest::kNone;
  if (typing_filter_) {
    HandleFilterKey(key);
    return TopRequest::kNone;
  }
  if (help_) {
    help_ = false;
    return key == 'q' ? TopRequest::kQuit : TopRequest::kNone;
  }
  const auto page = static_cast<int64_t>(page_);
  switch (key) {
    case 'q':
      return TopRequest::kQuit;
    case kKeyUp:
    case 'k':
      Move(-1);
      break;
    case kKeyDown:
    case 'j':
      Move(1);
      break;
    case kKeyPageUp:
      Move(-page);
      break;
    case kKeyPageDown:
      Move(page);
      break;
    case kKeyHome:
      Move(INT32_MIN);
      break;
    case kKeyEnd:
      Move(INT32_MAX);
      break;
    case kKeyLeft:
    case '<':
      MoveSorting(-1);
      break;
    case kKeyRight:
    case '>':
      MoveSorting(1);
      break;
    case 'r': {
      Sorting sorting = SortingOfTable();
      sorting.reversed = !sorting.reversed;
      sortings_[table_] = sorting;
      break;
    }
    case '/':
      typing_filter_ = true;
      break;
    case kKeyTab:
      if (data_.tables.size() > 1) {
        table_ = (table_ + 1) % data_.tables.size();
        selected_.clear();
        position_ = 0;
      }
      break;
    case 'p':
      paused_ = !paused_;
      break;
    case '+':
      seconds_ = std::max(seconds_ / 2, kShortest);
      break;
    case '-':
      seconds_ = std::min(seconds_ * 2, kLongest);
      break;
    case 'h':
    case '?':
      help_ = true;
      break;
    case kKeyEnter:
      return data_.opens_rows && !selected().empty() ? TopRequest::kOpen : TopRequest::kNone;
    case kKeyEscape:
    case kKeyBackspace:
      if (filter_.empty()) return TopRequest::kBack;
      filter_.clear();
      break;
    default:
      break;
  }
  return TopRequest::kNone;
}

// Draws the last `width` values as blocks, scaled from the smallest to the largest of them. The
// scale has a least range, so that a line which hardly changes is flat.
std::string TopModel::Spark(const std::vector<uint64_t>& values, size_t width) const {
  constexpr const char* kBlocks[] = {"\u2581", "\u2582", "\u2583", "\u2584",
                                     "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr const char* kLetters[] = {"_", ".", "-", "~", "=", "+", "*", "#"};
  const size_t shown = std::min(values.size(), width);
  const auto first = values.end() - static_cast<int64_t>(shown);
  if (shown == 0) return {};
  const auto [least, most] = std::minmax_element(first, values.end());
  const double range =
      std::max(static_cast<double>(*most - *least), static_cast<double>(*most) / kLeastRangePart);
  std::string spark;
  for (auto at = first; at != values.end(); ++at) {
    const double part = range == 0 ? 0 : static_cast<double>(*at - *least) / range;
    const auto level = static_cast<size_t>(part * 7.99);
    spark += blocks_ ? kBlocks[level] : kLetters[level];
  }
  return spark;
}

void TopModel::AddHead(size_t width, std::vector<TopLine>* lines) const {
  for (const std::string& line : data_.summary) lines->push_back({Printable(line)});
  if (!problem_.empty()) lines->push_back({problem_, TopLine::Style::kTitle});
  for (const History& history : data_.histories) {
    if (history.bytes.empty() || width < 2 * kHistoryName) continue;
    const std::string name = fmt::format("{:<12}{:>11} ", Printable(history.name).substr(0, 12),
                                         Size(history.bytes.back()));
    lines->push_back({name + Spark(history.bytes, width - name.size())});
  }
  std::string tables;
  for (size_t i = 0; i < data_.tables.size(); ++i) {
    const std::string& name = data_.tables[i].name;
    tables += i == table_ ? "[" + name + "] " : " " + name + "  ";
  }
  if (typing_filter_ || !filter_.empty()) {
    tables += fmt::format(" /{}{}", filter_, typing_filter_ ? "_" : "");
  }
  if (paused_) tables += " paused";
  lines->push_back({tables, TopLine::Style::kHint});
}

std::vector<TopLine> TopModel::Lines(size_t width, size_t height) {
  std::vector<TopLine> lines;
  if (help_) {
    for (const char* const line : kHelp) lines.push_back({line});
  } else {
    AddHead(width, &lines);
  }
  const size_t used = lines.size() + 2;  // the lines of the titles and of the hint
  if (!help_ && table() != nullptr && used < height) {
    page_ = height - used;
    const std::vector<const Row*> rows = Rows();
    const std::string now = selected();
    size_t at = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]->id == now) at = i;
    }
    position_ = at;
    // The selected row is among those shown.
    first_ = std::min(first_, rows.size() - std::min(rows.size(), page_));
    if (at < first_) first_ = at;
    if (at >= first_ + page_) first_ = at + 1 - page_;
    const std::vector<std::string> text = TableLines(*table(), rows, width);
    lines.push_back({text[0], TopLine::Style::kTitle});
    for (size_t i = first_; i < std::min(rows.size(), first_ + page_); ++i) {
      lines.push_back({text[i + 1], i == at ? TopLine::Style::kSelected : TopLine::Style::kPlain});
    }
  }
  lines.resize(std::max<size_t>(height, 1) - 1);
  const Sorting sorting = SortingOfTable();
  const std::string order = table() != nullptr && sorting.column < table()->columns.size()
                                ? table()->columns[sorting.column].title
                                : "";
  lines.push_back({fmt::format("q quit  ? help  / filter  Tab table  < > sort: {}{}  every {:g} s",
                               order, sorting.reversed ? " reversed" : "", seconds_),
                   TopLine::Style::kHint});
  for (TopLine& line : lines) {
    // Lines of blocks are already short enough; all others are ASCII.
    if (line.text.find('\xe2') == std::string::npos) line.text = line.text.substr(0, width);
  }
  lines.resize(height);
  return lines;
}

}  // namespace cli
