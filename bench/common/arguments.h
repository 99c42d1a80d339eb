// SPDX-License-Identifier: BSD-3-Clause

// Arguments: the positional arguments of a benchmark program, each with a default and a range.
//
//   Arguments arguments(argc, argv, "What the program does.");
//   const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
//   arguments.End();
//
// A wrong value or an additional argument ends the program with status 2. With --help each call
// prints its argument instead, and End() ends the program. Allocates nothing.
#pragma once

#include <cstdint>
#include <string_view>

namespace tcmalloc::bench {

// The largest number of threads that the programs accept.
inline constexpr uint64_t kMostThreads = 100'000;

class Arguments {
 public:
  Arguments(int argc, char** argv, const char* summary);

  // Returns whether `flag` is the next argument, and then consumes it. Flags come before all
  // others.
  bool Flag(const char* flag, const char* meaning);
  // Requires: smallest <= default_value <= largest.
  uint64_t Number(const char* name, uint64_t default_value, uint64_t smallest, uint64_t largest);
  // May be a fraction; more than 0, at most an hour.
  double Seconds(const char* name, double default_value);
  void End();

 private:
  // The next argument's text; null after the last.
  const char* Next();

  const int argc_;
  char** const argv_;
  int next_ = 1;
  bool help_ = false;
};

// Parses a number. Ends the program with status 2 if `text` is no number in the range.
uint64_t ParseNumber(const char* name, const char* text, uint64_t smallest, uint64_t largest);
double ParseSeconds(const char* name, const char* text);

}  // namespace tcmalloc::bench
