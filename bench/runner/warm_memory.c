// SPDX-License-Identifier: BSD-3-Clause

// bench_warm_memory: has the system's free memory in the same state before every measured process.
//
//   bench_warm_memory KIB
//
// A guest system that reports its free memory to the host loses what it had behind it after some
// seconds, whole hugepages first. Who touches it next waits for the host: 6 to 10 us per 4 KiB page
// instead of 0.6, seen with hugepages on a machine of that kind. Whom that hits depends on what ran
// before, and for how long. This program touches as much as it is told, as hugepages where there
// are any, and ends; the system hands out first what was freed last.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kPageBytes = 4096 };
static const size_t kHugepageBytes = (size_t)2 << 20;

int main(int argc, char** argv) {
  char* end = NULL;
  const unsigned long long kib = argc == 2 ? strtoull(argv[1], &end, 10) : 0;
  if (argc != 2 || *argv[1] == '\0' || *end != '\0' || kib > SIZE_MAX / 2048) {
    fprintf(stderr, "usage: bench_warm_memory KIB\n");
    return 2;
  }
  const size_t bytes = (size_t)kib * 1024;
  char* const mapped = mmap(NULL, bytes + kHugepageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    perror("bench_warm_memory: mmap");
    return 1;
  }
  char* const start =
      (char*)(((uintptr_t)mapped + kHugepageBytes - 1) & ~(uintptr_t)(kHugepageBytes - 1));
  madvise(start, bytes, MADV_HUGEPAGE);  // where there are none, pages do
  for (size_t i = 0; i < bytes; i += kPageBytes) *(volatile char*)(start + i) = 1;
  return 0;
}
