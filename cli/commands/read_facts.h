// SPDX-License-Identifier: BSD-3-Clause
// Reads the facts of a diagnosis from a process, a core file or a snapshot. A process is not
// stopped.
#pragma once

#include <optional>

#include "commands/open_process.h"
#include "heap/record.h"
#include "report/diagnosis.h"

namespace cli {

// `target` is the heap of the process, if it has one.
Facts ReadFacts(const OpenProcess& process, const std::optional<Target>& target);

}  // namespace cli
