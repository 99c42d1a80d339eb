// SPDX-License-Identifier: BSD-3-Clause
// Probes at which a tracer outside the process can stop the process or run a kernel program:
//
//   otel_memory:alloc(object, bytes, weight)   a sampled allocation, and the bytes it represents
//   otel_memory:free(object)                   a sampled object is freed
//
// Names and arguments are those that open-telemetry's memory profiler expects. A probe is an
// instruction that does nothing, a note in the ELF file that has its address, and a count of
// attached tracers. The arguments are computed only while the count is not 0. Every build of the
// full library has them.
#pragma once

#include <cstddef>

namespace tcmalloc {

void ProbeAllocation(const void* object, size_t bytes, size_t weight);
void ProbeFree(const void* object);

}  // namespace tcmalloc
