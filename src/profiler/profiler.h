// SPDX-License-Identifier: BSD-3-Clause
// What the rest of the library knows of profiles. The minimal library has no_profiler.cc for all of
// it.
#pragma once

namespace tcmalloc {

// Begins what the environment asks for. Once the C library is ready; no lock may be held.
void OnProfilerLoad();
// The process ends: writes what is still to be written.
void OnProfilerExit();

}  // namespace tcmalloc
