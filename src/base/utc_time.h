// SPDX-License-Identifier: BSD-3-Clause
// Writes times in ISO 8601 format, in UTC, without the C library's functions, which may allocate
// and lock.
#pragma once

#include <cstdint>

#include "base/text_writer.h"

namespace tcmalloc {

// Writes seconds since 1970 as 2026-01-31T23:59:58Z. Requires: 0 <= seconds, before the year 10000.
inline void WriteUtcTime(int64_t seconds, TextWriter* out) {
  const auto two_digits = [out](int64_t value) {
    if (value < 10) out->Text("0");
    out->Number(static_cast<uint64_t>(value));
  };
  int64_t days = seconds / 86400;
  const int64_t of_day = seconds % 86400;
  int64_t year = 1970;
  const auto days_in_year = [&year] {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 366 : 365;
  };
  for (; days >= days_in_year(); ++year) days -= days_in_year();
  int64_t month = 1;
  const auto days_in_month = [&] {
    if (month == 2) return days_in_year() - 337;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
  };
  for (; days >= days_in_month(); ++month) days -= days_in_month();
  out->Number(static_cast<uint64_t>(year)).Text("-");
  two_digits(month);
  out->Text("-");
  two_digits(days + 1);
  out->Text("T");
  two_digits(of_day / 3600);
  out->Text(":");
  two_digits(of_day / 60 % 60);
  out->Text(":");
  two_digits(of_day % 60);
  out->Text("Z");
}

}  // namespace tcmalloc
