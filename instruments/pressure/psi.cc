// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/pressure/psi.h"

#include <errno.h>
#include <fcntl.h>

#include "base/text_fields.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {
namespace {

// Parses an integer with a unit; false for other text, or a time of more than kMaxPsiWindowUs.
bool ParseMicroseconds(std::string_view text, uint32_t* us) {
  uint64_t number;
  if (!TakeNumber(&text, &number) || number > kMaxPsiWindowUs) return false;
  if (text == "s") {
    number *= 1'000'000;
  } else if (text == "ms") {
    number *= 1000;
  } else if (text != "us") {
    return false;
  }
  if (number > kMaxPsiWindowUs) return false;
  *us = static_cast<uint32_t>(number);
  return true;
}

}  // namespace

bool ParsePsiTrigger(std::string_view text, PsiTrigger* trigger) {
  const std::string_view kind = TakeField(&text, ':');
  const std::string_view stall = TakeField(&text, '/');
  PsiTrigger parsed = {.full = kind == "full"};
  if (!parsed.full && kind != "some") return false;
  if (!ParseMicroseconds(stall, &parsed.stall_us) || !ParseMicroseconds(text, &parsed.window_us)) {
    return false;
  }
  if (parsed.stall_us == 0 || parsed.stall_us > parsed.window_us) return false;
  *trigger = parsed;
  return true;
}

void WritePsiTrigger(const PsiTrigger& trigger, TextWriter* text) {
  text->Text(trigger.full ? "full " : "some ");
  text->Number(trigger.stall_us).Text(" ").Number(trigger.window_us);
}

int OpenPsiTrigger(std::string_view front, std::string_view rest, const PsiTrigger& trigger) {
  const ErrnoKeeper keeper;
  const FilePath path(front, rest);
  if (!path.is_whole()) return -ENAMETOOLONG;
  char buffer[40];
  TextWriter text(buffer, sizeof(buffer));
  WritePsiTrigger(trigger, &text);
  int fd;
  do {
    fd = OpenFile(path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return -errno;
  // The kernel overwrites the last character with a zero, so one character more than the text is
  // written.
  const ssize_t bytes = static_cast<ssize_t>(text.text().size()) + 1;
  ssize_t written;
  do {
    written = WriteTo(fd, buffer, static_cast<size_t>(bytes));
  } while (written < 0 && errno == EINTR);
  if (written == bytes) return fd;
  const int error = written < 0 ? errno : EIO;
  Close(fd);
  return -error;
}

}  // namespace tcmalloc
