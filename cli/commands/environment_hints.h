// SPDX-License-Identifier: BSD-3-Clause
// Hints about variables in the environment of a process that do not do what they seem to: those of
// other allocators, names without their prefix, and sizes without their unit.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cli {

// `environment` has an element NAME=VALUE for each variable. Returns a line for each hint.
std::vector<std::string> HintsAbout(const std::vector<std::string>& environment);

// The environment that the process was started with; empty if it may not be read.
std::vector<std::string> EnvironmentOf(pid_t pid);

}  // namespace cli
