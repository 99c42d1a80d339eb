// SPDX-License-Identifier: BSD-3-Clause
#include "os/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/config.h"
#include "base/text.h"
#include "os/errno_keeper.h"
#include "os/files.h"

namespace tcmalloc {

void WriteToStderr(std::string_view text) noexcept {
  const ErrnoKeeper keeper;
  WriteAllTo(STDERR_FILENO, text.data(), text.size());
}

char abort_line[kAbortLineBytes];

namespace {

void KeepAbortLine(std::string_view text) noexcept {
  static std::atomic_flag writing;
  // Acquire and release order the writers one after the other. No writer waits: if another one is
  // active, its line is kept.
  if (writing.test_and_set(std::memory_order_acquire)) return;
  const size_t bytes = std::min(text.size(), kAbortLineBytes - 1);
  memcpy(abort_line, text.data(), bytes);
  abort_line[bytes] = '\0';
  writing.clear(std::memory_order_release);
}

}  // namespace

void AbortWith(std::string_view text) noexcept {
  KeepAbortLine(text);
  WriteToStderr(text);
  abort();
}

void AbortAfter(std::string_view text) noexcept {
  KeepAbortLine(text);
  abort();
}

void CheckFailed(const char* file, int line, const char* condition) noexcept {
  char buffer[512];
  TextWriter writer(buffer, sizeof(buffer));
  writer.Text("tcmalloc: ").Text(file).Text(":").Number(static_cast<uint64_t>(line));
  writer.Text(": check failed: ").Text(condition).Text("\n");
  AbortWith(writer.text());
}

}  // namespace tcmalloc

// The compiler puts this function into the slots of pure virtual functions. It is weak and hidden:
// a C++ program has its own function, and a C program needs none.
extern "C" __attribute__((weak, visibility("hidden"))) void __cxa_pure_virtual() {
  tcmalloc::AbortWith("tcmalloc: pure virtual function called\n");
}
