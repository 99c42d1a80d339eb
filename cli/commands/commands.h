// SPDX-License-Identifier: BSD-3-Clause
// The commands. Each function adds a command and its options to the parser. The command runs when
// it was chosen, and sets the exit status. Failures are thrown.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailed = 1;
// Objects of the process are damaged.
inline constexpr int kDamaged = 2;
// The process runs on another malloc: the kernel's figures were printed.
inline constexpr int kOtherMalloc = 3;
// For 'leaks': some objects are leaked.
inline constexpr int kLeaks = 4;
// For 'leaks' and 'inspect --referrers': the search could not be complete.
inline constexpr int kIncomplete = 5;
// The process has not carried out the request yet.
inline constexpr int kPending = 6;

void AddPs(CLI::App& parser, int* status);
void AddStats(CLI::App& parser, int* status);
void AddDoctor(CLI::App& parser, int* status);
void AddTimeline(CLI::App& parser, int* status);
void AddTop(CLI::App& parser, int* status);
void AddDiff(CLI::App& parser, int* status);
void AddObjects(CLI::App& parser, int* status);
void AddLeaks(CLI::App& parser, int* status);
void AddInspect(CLI::App& parser, int* status);
void AddTypes(CLI::App& parser, int* status);
void AddExplain(CLI::App& parser, int* status);
void AddCheck(CLI::App& parser, int* status);
void AddProfile(CLI::App& parser, int* status);
void AddSnapshot(CLI::App& parser, int* status);
void AddFlush(CLI::App& parser, int* status);  // and release, trim
void AddSet(CLI::App& parser, int* status);
void AddRun(CLI::App& parser, int* status);
// Describes the commands that were added before it.
void AddGenerate(CLI::App& parser, int* status);
// Removes "--" from "run OPTIONS -- PROGRAM", since the parser does not expect it there.
void RemoveSeparatorOfRun(std::vector<std::string>* arguments);

}  // namespace cli
