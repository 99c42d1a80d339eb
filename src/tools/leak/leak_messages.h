// SPDX-License-Identifier: BSD-3-Clause
// What the leak checker tells the user: the report on stderr, the profile file, and how to look at
// it.
//
// It makes checks but decides nothing about when. Thread safety: any thread that holds no lock.
// Cost: a check, and milliseconds per reported site for the names of functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/settings.h"
#include "tools/leak/leak_request.h"

namespace tcmalloc {

// What a check found, for callers that ask later.
struct LeakFigures {
  bool checked = false;
  uint64_t objects = 0;
  uint64_t bytes = 0;
};

// The name of the check of the whole program.
inline constexpr std::string_view kProgramCheckName = "_main_";

// Makes a check and writes what it found, to stderr and a file; with `at_end` also writes that it
// found nothing. True when nothing is leaked; false also where the check could not be made.
bool CheckAndReport(const LeakRequest& request, std::string_view name, bool at_end,
                    LeakFigures* figures);

// Says on stderr if the profile, which is due at the end of the program, cannot be created.
void CheckDumpDirectory(const Settings& settings);

}  // namespace tcmalloc
