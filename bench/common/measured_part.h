// SPDX-License-Identifier: BSD-3-Clause

// MeasuredPart: time, processor time and page faults of a part of the program, all threads
// together. Allocates nothing.
#pragma once

namespace tcmalloc::bench {

// Seconds on a clock that only goes forward.
double Now();

class MeasuredPart {
 public:
  // The measured part begins here.
  MeasuredPart();
  void End();

  // Requires: End() was called.
  double wall_s() const { return used_.wall_s; }
  double user_s() const { return used_.user_s; }
  double sys_s() const { return used_.sys_s; }
  double cpu_s() const { return used_.user_s + used_.sys_s; }
  long minor_faults() const { return used_.minor_faults; }
  long major_faults() const { return used_.major_faults; }

 private:
  struct Usage {
    double wall_s;
    double user_s;
    double sys_s;
    long minor_faults;
    long major_faults;
  };
  static Usage SinceStart();

  Usage used_;
};

}  // namespace tcmalloc::bench
