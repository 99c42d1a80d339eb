// SPDX-License-Identifier: BSD-3-Clause
#include "commands/screen.h"

// Keeps ncurses from defining macros for functions, whose names would clash with others.
#define NCURSES_NOMACROS
#include <curses.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>

#include "image/image.h"

namespace cli {

Screen::Screen() {
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0) {
    throw Failure("top needs a terminal: --once prints one view");
  }
  terminal_ = newterm(nullptr, stdout, stdin);
  if (terminal_ == nullptr) {
    throw Failure("top does not know the terminal of TERM: --once prints one view");
  }
  set_escdelay(25);
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, true);
  curs_set(0);
}

Screen::~Screen() {
  endwin();
  delscreen(static_cast<SCREEN*>(terminal_));
}

bool Screen::ShowsUtf8() {
  setlocale(LC_CTYPE, "");
  return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

size_t Screen::width() const { return static_cast<size_t>(getmaxx(stdscr)); }
size_t Screen::height() const { return static_cast<size_t>(getmaxy(stdscr)); }

void Screen::Draw(const std::vector<TopLine>& lines) {
  erase();
  for (size_t i = 0; i < lines.size(); ++i) {
    const TopLine& line = lines[i];
    attr_t style = A_NORMAL;
    if (line.style == TopLine::Style::kTitle) style = A_BOLD;
    if (line.style == TopLine::Style::kSelected) style = A_REVERSE;
    if (line.style == TopLine::Style::kHint) style = A_DIM;
    attrset(static_cast<int>(style));
    mvaddnstr(static_cast<int>(i), 0, line.text.c_str(), -1);
  }
  refresh();
}

int Screen::ReadKey(int timeout_ms) {
  timeout(timeout_ms);
  const int key = getch();
  switch (key) {
    case KEY_UP:
      return kKeyUp;
    case KEY_DOWN:
      return kKeyDown;
    case KEY_LEFT:
      return kKeyLeft;
    case KEY_RIGHT:
      return kKeyRight;
    case KEY_PPAGE:
      return kKeyPageUp;
    case KEY_NPAGE:
      return kKeyPageDown;
    case KEY_HOME:
      return kKeyHome;
    case KEY_END:
      return kKeyEnd;
    case KEY_ENTER:
    case '\r':
    case '\n':
      return kKeyEnter;
    case '\t':
      return kKeyTab;
    case '\033':
      return kKeyEscape;
    case KEY_BACKSPACE:
    case 127:
    case '\b':
      return kKeyBackspace;
    default:
      return key >= ' ' && key <= '~' ? key : kNoKey;
  }
}

}  // namespace cli
