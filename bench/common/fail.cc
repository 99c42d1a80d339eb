// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/fail.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace tcmalloc::bench {
namespace {

// Calls _exit, since other threads may be in the middle of their work.
[[noreturn]] void Exit(int status, const char* format, va_list arguments) {
  std::array<char, 512> text;
  const int length = vsnprintf(text.data(), text.size(), format, arguments);
  if (length >= 0) dprintf(STDERR_FILENO, "%s: %s\n", program_invocation_short_name, text.data());
  _exit(status);
}

}  // namespace

void Fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Exit(1, format, arguments);
}

void FailUsage(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Exit(2, format, arguments);
}

}  // namespace tcmalloc::bench
