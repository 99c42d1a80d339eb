// SPDX-License-Identifier: BSD-3-Clause
// The commands. Each adds its options to the parser and runs when it was chosen; it returns the
// exit status. Failures are thrown.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cli {

inline constexpr int kSuccess = 0;
inline constexpr int kFailed = 1;
// The process runs on another malloc: the kernel's figures were printed.
inline constexpr int kOtherMalloc = 3;

void AddPs(CLI::App& parser, int* status);
void AddStats(CLI::App& parser, int* status);
void AddDoctor(CLI::App& parser, int* status);
void AddTimeline(CLI::App& parser, int* status);
void AddTop(CLI::App& parser, int* status);
void AddDiff(CLI::App& parser, int* status);
void AddObjects(CLI::App& parser, int* status);
void AddInspect(CLI::App& parser, int* status);
void AddProfile(CLI::App& parser, int* status);
void AddSnapshot(CLI::App& parser, int* status);
void AddRun(CLI::App& parser, int* status);
// Describes the commands that were added before it.
void AddGenerate(CLI::App& parser, int* status);
// Of "run OPTIONS -- PROGRAM", removes "--", which the parser does not expect there.
void RemoveSeparatorOfRun(std::vector<std::string>* arguments);

}  // namespace cli
