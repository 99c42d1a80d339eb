// SPDX-License-Identifier: BSD-3-Clause
// What the commands that show call sites share: reading samples, and saying why there are none.
#pragma once

#include <string>

#include "commands/open_process.h"
#include "heap/profile.h"
#include "heap/samples.h"
#include "image/symbolizer.h"

namespace cli {

// The samples of the process. If they change while they are read, and with mode->stop, it is
// stopped while they are copied. Throws Failure when the process does not run on this allocator, or
// its library takes no samples.
Samples ReadSamplesOf(OpenProcess& process, ReadMode* mode);

// Throws Failure when the process has no samples because it takes none: how to change that.
void RequireSampling(const Samples& samples, const ProcessInfo& info);

// The path of the process's program, without the kernel's " (deleted)".
std::string ProgramOf(const ProcessInfo& info);

// A line on stderr for each file whose functions have no names.
void WarnOfMissingNames(const Symbolizer& symbolizer);

// Writes a file, or standard output for "-". Throws Failure.
void WriteOutput(const std::string& path, const std::string& contents);

}  // namespace cli
