// SPDX-License-Identifier: BSD-3-Clause
// Screen: the terminal, by ncurses. There may be one at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "report/top_model.h"

namespace cli {

class Screen {
 public:
  // Throws Failure when standard output is not a terminal, or ncurses does not know the terminal.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  size_t width() const;
  size_t height() const;
  void Draw(const std::vector<TopLine>& lines);
  // A character or a TopKey; kNoKey also if the size of the terminal changed.
  int ReadKey(int timeout_ms);
  // True if the terminal shows UTF-8.
  static bool ShowsUtf8();

 private:
  void* terminal_;
};

}  // namespace cli
