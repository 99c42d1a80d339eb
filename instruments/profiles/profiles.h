// SPDX-License-Identifier: BSD-3-Clause
// The interface of the profiles for the rest of the library: the objects in use, those in use at
// the peak, those allocated during a recording (instruments/profiles/sampler.h), and the call
// stacks that made the heap grow.
//
// In the minimal library instruments/profiles/no_profiler.cc implements these functions; there are
// no profiles.
#pragma once

#include "instruments/profiles/profile.h"

namespace tcmalloc {

struct Heap;

// False when there is no memory. Cost: see SampleTable::Snapshot.
bool TakeProfile(Heap& heap, ProfileKind kind, ProfileMemory* profile);

// Takes the profile and writes it as the text of gperftools' profilers. False when writing failed
// or there is no memory, and in the minimal library.
bool WriteTextProfile(Heap& heap, ProfileKind kind, ByteSink::Function function, void* context);

// Starts the profilers that the environment requests. Called once the C library is ready. Requires:
// no lock is held.
void OnProfilerLoad();
// Writes the files that are due at the end of the process.
void OnProfilerExit();

}  // namespace tcmalloc
