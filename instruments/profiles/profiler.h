// SPDX-License-Identifier: BSD-3-Clause
// The interface of the profiles for the rest of the library. In the minimal library
// instruments/profiles/no_profiler.cc implements it.
#pragma once

namespace tcmalloc {

// Starts the profilers that the environment requests. Called once the C library is ready. Requires:
// no lock is held.
void OnProfilerLoad();
// Writes the files that are due at the end of the process.
void OnProfilerExit();

}  // namespace tcmalloc
