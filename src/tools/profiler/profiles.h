// SPDX-License-Identifier: BSD-3-Clause
// Profiles of the process: what is in use, what was in use at the peak, what was allocated during a
// recording (tools/profiler/sampler.h), and the call stacks that made the heap grow.
//
// In the minimal library tools/minimal/profiler.cc implements it: there are no profiles.
#pragma once

#include "tools/profile/byte_sink.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_memory.h"

namespace tcmalloc {

struct Heap;

// False when there is no memory. Cost: see SampleTable::Snapshot.
bool TakeProfile(Heap& heap, ProfileKind kind, ProfileMemory* profile);

// Takes the profile and writes it as the text of gperftools' profilers. False when writing failed
// or there is no memory, and in the minimal library.
bool WriteTextProfile(Heap& heap, ProfileKind kind, ByteSink::Function function, void* context);

}  // namespace tcmalloc
