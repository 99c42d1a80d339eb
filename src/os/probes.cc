// SPDX-License-Identifier: BSD-3-Clause
#include "os/probes.h"

#if defined(__has_include) && __has_include(<sys/sdt.h>)

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

// Counted up and down by those who look, from outside.
extern "C" {
__attribute__((section(".probes"))) volatile unsigned short otel_memory_alloc_semaphore = 0;
__attribute__((section(".probes"))) volatile unsigned short otel_memory_free_semaphore = 0;
}

namespace tcmalloc {

void ProbeAllocation(const void* object, size_t bytes, size_t weight) {
  if (otel_memory_alloc_semaphore != 0) STAP_PROBE3(otel_memory, alloc, object, bytes, weight);
}

void ProbeFree(const void* object) {
  if (otel_memory_free_semaphore != 0) STAP_PROBE1(otel_memory, free, object);
}

}  // namespace tcmalloc

#else

namespace tcmalloc {

void ProbeAllocation(const void*, size_t, size_t) {}
void ProbeFree(const void*) {}

}  // namespace tcmalloc

#endif
