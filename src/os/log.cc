// SPDX-License-Identifier: BSD-3-Clause
#include "os/log.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text_writer.h"
#include "os/errno_keeper.h"
#include "os/uncancelled_io.h"

namespace tcmalloc {

void WriteToStderr(std::string_view text) noexcept {
  const ErrnoKeeper keeper;
  WriteAllTo(STDERR_FILENO, text.data(), text.size());
}

void AbortWith(std::string_view text) noexcept {
  WriteToStderr(text);
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

// The compiler puts this function into the slots of pure virtual functions. Weak and hidden: a C++
// program brings its own, a C program needs none.
extern "C" __attribute__((weak, visibility("hidden"))) void __cxa_pure_virtual() {
  tcmalloc::AbortWith("tcmalloc: pure virtual function called\n");
}
