// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/arguments.h"

#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "bench/common/fail.h"

namespace tcmalloc::bench {

uint64_t ParseNumber(const char* name, const char* text, uint64_t smallest, uint64_t largest) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = strtoull(text, &end, 10);
  if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < smallest ||
      value > largest) {
    FailUsage("%s is a number from %" PRIu64 " to %" PRIu64 ", not %s (--help shows more)", name,
              smallest, largest, text);
  }
  return value;
}

double ParseSeconds(const char* name, const char* text) {
  constexpr double kHour = 3600;
  char* end = nullptr;
  const double value = strtod(text, &end);
  if (end == text || *end != '\0' || !std::isfinite(value) || value <= 0 || value > kHour) {
    FailUsage("%s is more than 0 and at most %g seconds, not %s (--help shows more)", name, kHour,
              text);
  }
  return value;
}

Arguments::Arguments(int argc, char** argv, const char* summary) : argc_(argc), argv_(argv) {
  help_ = argc == 2 && std::string_view(argv[1]) == "--help";
  if (!help_) return;
  next_ = argc;
  printf("%s\n\nArguments, in this order, each may be left out from the right:\n", summary);
}

const char* Arguments::Next() { return next_ < argc_ ? argv_[next_++] : nullptr; }

bool Arguments::Flag(const char* flag, const char* meaning) {
  if (help_) printf("  %-14s %s\n", flag, meaning);
  if (next_ >= argc_ || std::string_view(argv_[next_]) != flag) return false;
  ++next_;
  return true;
}

uint64_t Arguments::Number(const char* name, uint64_t default_value, uint64_t smallest,
                           uint64_t largest) {
  if (help_) printf("  %-14s default %" PRIu64 "\n", name, default_value);
  const char* const text = Next();
  return text == nullptr ? default_value : ParseNumber(name, text, smallest, largest);
}

double Arguments::Seconds(const char* name, double default_value) {
  if (help_) printf("  %-14s default %g\n", name, default_value);
  const char* const text = Next();
  return text == nullptr ? default_value : ParseSeconds(name, text);
}

void Arguments::End() {
  if (help_) {
    fflush(stdout);
    exit(0);
  }
  if (const char* const text = Next())
    FailUsage("unexpected argument %s (--help shows more)", text);
}

}  // namespace tcmalloc::bench
