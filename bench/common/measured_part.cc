// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/measured_part.h"

#include <sys/resource.h>

#include <cstring>
#include <ctime>

#include "bench/common/fail.h"

namespace tcmalloc::bench {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double Now() {
  timespec time;
  if (clock_gettime(CLOCK_MONOTONIC, &time) != 0) Fail("no monotonic clock");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

MeasuredPart::Usage MeasuredPart::SinceStart() {
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) Fail("no resource usage");
  return {.wall_s = Now(),
          .user_s = Seconds(usage.ru_utime),
          .sys_s = Seconds(usage.ru_stime),
          .minor_faults = usage.ru_minflt,
          .major_faults = usage.ru_majflt};
}

MeasuredPart::MeasuredPart() : used_(SinceStart()) {}

void MeasuredPart::End() {
  const Usage end = SinceStart();
  used_ = {.wall_s = end.wall_s - used_.wall_s,
           .user_s = end.user_s - used_.user_s,
           .sys_s = end.sys_s - used_.sys_s,
           .minor_faults = end.minor_faults - used_.minor_faults,
           .major_faults = end.major_faults - used_.major_faults};
}

}  // namespace tcmalloc::bench
