// SPDX-License-Identifier: BSD-3-Clause
// Probes at which a tracer outside the process can stop, or have the kernel run a program of its:
//
//   otel_memory:alloc(object, bytes, weight)   a sampled allocation, and how many bytes it stands
//                                              for
//   otel_memory:free(object)                   the object of such a one is freed
//
// Names and arguments are those that open-telemetry's memory profiler looks for. Each is an
// instruction that does nothing, a note in the ELF file that says where it is, and a counter of
// those who look: the arguments are computed only while that is not 0. Every build of the full
// library has them.
#pragma once

#include <cstddef>

namespace tcmalloc {

void ProbeAllocation(const void* object, size_t bytes, size_t weight);
void ProbeFree(const void* object);

}  // namespace tcmalloc
