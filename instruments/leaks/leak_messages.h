// SPDX-License-Identifier: BSD-3-Clause
// The leak checker's messages to the user: the report on stderr, the profile file, and the command
// that shows it.
//
// It makes checks, but does not decide when to make them. Thread safety: any thread that holds no
// lock. Cost: a check, and milliseconds per reported site for the names of functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/settings.h"
#include "instruments/leaks/leak_request.h"

namespace tcmalloc {

// The results of a check, for callers that read them later.
struct LeakFigures {
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

// The name of the check of the whole program.
inline constexpr std::string_view kProgramCheckName = "_main_";

// Makes a check and writes the leaks to stderr and a file; with `at_end` it also writes a line if
// there are none. True when nothing is leaked; false also if the check could not be made.
bool CheckAndReport(const LeakRequest& request, std::string_view name, bool at_end,
                    LeakFigures* figures);

// Writes a line to stderr if the profile that is written at the end of the program cannot be
// created.
void CheckDumpDirectory(const Settings& settings);

}  // namespace tcmalloc
