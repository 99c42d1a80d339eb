// SPDX-License-Identifier: BSD-3-Clause
// Profiles of the process: the objects in use, those in use at the peak, those allocated during a
// recording (instruments/profiles/sampler.h), and the call stacks that made the heap grow.
//
// In the minimal library instruments/profiles/no_profiler.cc implements these functions; there are
// no profiles.
#pragma once

#include "instruments/profiles/byte_sink.h"
#include "instruments/profiles/profile.h"
#include "instruments/profiles/profile_memory.h"

namespace tcmalloc {

struct Heap;

// False when there is no memory. Cost: see SampleTable::Snapshot.
bool TakeProfile(Heap& heap, ProfileKind kind, ProfileMemory* profile);

// Takes the profile and writes it as the text of gperftools' profilers. False when writing failed
// or there is no memory, and in the minimal library.
bool WriteTextProfile(Heap& heap, ProfileKind kind, ByteSink::Function function, void* context);

}  // namespace tcmalloc
