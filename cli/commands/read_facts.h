// SPDX-License-Identifier: BSD-3-Clause
// The data of 'tcmalloc doctor': the facts of a diagnosis, and hints about the environment.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "commands/open_process.h"
#include "heap/record.h"
#include "report/diagnosis.h"

namespace cli {

// Hints about variables in the environment of a process that do not do what they seem to: those of
// other allocators, names without their prefix, and sizes without their unit.

// `environment` has an element NAME=VALUE for each variable. Returns a line for each hint.
std::vector<std::string> HintsAbout(const std::vector<std::string>& environment);

// The environment that the process was started with; empty if it may not be read. Of a larger one,
// the first 6 MiB.
std::vector<std::string> EnvironmentOf(pid_t pid);

// Whether the program is a Python interpreter that maps the memory of most objects itself: its
// environment does not select malloc. False if the environment is not known.
bool IsPythonThatMaps(const std::string& executable, const std::vector<std::string>& environment);

// Reads the facts of a diagnosis from a process, a core file or a snapshot. A process is not
// stopped.

// `target` is the heap of the process, if it has one.
Facts ReadFacts(const OpenProcess& process, const std::optional<Target>& target);

}  // namespace cli
