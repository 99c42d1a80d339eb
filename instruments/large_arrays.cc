// SPDX-License-Identifier: BSD-3-Clause
// The largest objects of the instruments in zero-filled memory: see process/large_arrays.cc.
#include "instruments/pressure/listening.h"
#include "instruments/unwind/call_frame_cache.h"

namespace tcmalloc {

constinit CallFrameCache call_frame_cache{};

alignas(Listening) constinit char listening_storage[sizeof(Listening)] = {};

}  // namespace tcmalloc
