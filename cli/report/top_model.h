// SPDX-License-Identifier: BSD-3-Clause
// TopModel: the contents of the live view, and its response to keys. It uses no terminal and no
// process: its inputs are data and keys, its outputs are lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/table.h"

namespace cli {

// Keys that are not characters.
enum TopKey : int {
  kNoKey = -1,  // none was pressed in time
  kKeyUp = 0x110000,
  kKeyDown,
  kKeyLeft,
  kKeyRight,
  kKeyPageUp,
  kKeyPageDown,
  kKeyHome,
  kKeyEnd,
  kKeyEnter,
  kKeyTab,
  kKeyEscape,
  kKeyBackspace,
};

// A line of the timeline.
struct History {
  std::string name;
  std::vector<uint64_t> bytes;  // the oldest first
};

struct TopData {
  std::vector<std::string> summary;
  std::vector<History> histories;
  std::vector<Table> tables;  // at least one; the same ones, in order, while a view is open
  // True if a row of the first table can be opened.
  bool opens_rows = false;
};

enum class TopRequest {
  kNone,
  kQuit,
  kOpen,  // the selected row
  kBack,  // to the view before
};

struct TopLine {
  enum class Style { kPlain, kTitle, kSelected, kHint };
  std::string text;
  Style style = Style::kPlain;
};

class TopModel {
 public:
  // `blocks` is true if the terminal shows U+2581 to U+2588.
  explicit TopModel(bool blocks, double seconds = 1) : blocks_(blocks), seconds_(seconds) {}

  // A new view: nothing is selected, nothing filtered.
  void Open() { *this = TopModel(blocks_, seconds_); }
  void SetData(TopData data);
  // Reports that the last reading failed; the data before it stay.
  void SetProblem(std::string problem);
  TopRequest HandleKey(int key);
  // Exactly `height` lines of at most `width` characters.
  std::vector<TopLine> Lines(size_t width, size_t height);

  bool paused() const { return paused_; }
  double seconds() const { return seconds_; }  // between refreshes
  // The id of the selected row; empty if there is none.
  std::string selected() const;

 private:
  // How the rows of a table are sorted.
  struct Sorting {
    size_t column = 0;
    bool reversed = false;
    bool chosen = false;
  };

  const Table* table() const;
  std::vector<const Row*> Rows() const;
  Sorting SortingOfTable() const;
  void HandleFilterKey(int key);
  void Move(int64_t by);
  void MoveSorting(int64_t by);
  std::string Spark(const std::vector<uint64_t>& values, size_t width) const;
  void AddHead(size_t width, std::vector<TopLine>* lines) const;

  bool blocks_;
  TopData data_;
  std::string problem_;
  size_t table_ = 0;
  std::map<size_t, Sorting> sortings_;  // by table
  std::string filter_;
  bool typing_filter_ = false;
  bool help_ = false;
  bool paused_ = false;
  double seconds_;
  // The selection follows the row's id when rows are sorted again.
  std::string selected_;
  size_t position_ = 0;
  size_t page_ = 1;  // rows that the last Lines showed
  size_t first_ = 0;
};

}  // namespace cli
