// SPDX-License-Identifier: BSD-3-Clause
// The shared parts of the commands that show call sites: they read samples, and explain why there
// are none.
#pragma once

#include <string>

#include "commands/open_process.h"
#include "heap/profile.h"
#include "image/symbolizer.h"

namespace cli {

// Reads the samples of the process. If they change meanwhile, and mode->stop is set, the process is
// stopped while they are copied. Throws Failure when the process does not run on this allocator, or
// its library takes no samples.
Samples ReadSamplesOf(OpenProcess& process, ReadMode* mode);

// Throws Failure when the process has no samples because it takes none; the message explains how to
// change that.
void RequireSampling(const Samples& samples, const ProcessInfo& info);

// The path of the process's program, without the kernel's " (deleted)".
std::string ProgramOf(const ProcessInfo& info);

// Writes a line to stderr for each file whose functions have no names.
void WarnOfMissingNames(const Symbolizer& symbolizer);

}  // namespace cli
