// SPDX-License-Identifier: BSD-3-Clause
// What the rest of the library knows of profiles. In the minimal library tools/minimal/profiler.cc
// implements it.
#pragma once

namespace tcmalloc {

// Starts what the environment asks for, once the C library is ready. Requires: no lock is held.
void OnProfilerLoad();
// The process ends: writes what is due then.
void OnProfilerExit();

}  // namespace tcmalloc
