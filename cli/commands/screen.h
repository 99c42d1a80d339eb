// SPDX-License-Identifier: BSD-3-Clause
// Screen: the terminal, by ncurses. One at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "report/top_model.h"

namespace cli {

class Screen {
 public:
  // Throws Failure when standard output is no terminal, or ncurses does not know it.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  size_t width() const;
  size_t height() const;
  void Draw(const std::vector<TopLine>& lines);
  // A character or a TopKey; -1: none came in time, or the size of the terminal changed.
  int ReadKey(int timeout_ms);
  // The terminal shows UTF-8.
  static bool ShowsUtf8();

 private:
  void* terminal_;
};

}  // namespace cli
