// SPDX-License-Identifier: BSD-3-Clause
// Profiles of the process: what is in use, what was when most was, what was allocated during a
// recording (see profiler/sampler.h), and where the heap was made to grow.
//
// The minimal library has no_profiler.cc for all of it: it has no profiles.
#pragma once

#include "profile/byte_sink.h"
#include "profile/profile.h"
#include "profile/profile_memory.h"

namespace tcmalloc {

struct Heap;

// False when there is no memory. Cost: see SampleTable::Snapshot.
bool TakeProfile(Heap& heap, ProfileKind kind, ProfileMemory* profile);

// Takes the profile and writes it as the text that gperftools' profilers write. False when some of
// it could not be written, and in the minimal library.
bool WriteTextProfile(Heap& heap, ProfileKind kind, ByteSink::Function function, void* context);

}  // namespace tcmalloc
