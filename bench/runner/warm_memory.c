// SPDX-License-Identifier: BSD-3-Clause

// bench_warm_memory: brings the OS's free memory into the same state before every measured process.
//
//   bench_warm_memory KIB
//
// If a guest system reports its free memory to the host, the host reclaims it after some seconds,
// whole hugepages first. The next process that touches it waits for the host: 6 to 10 us per 4 KiB
// page instead of 0.6. Which process waits depends on what ran before, and for how long. The kernel
// takes 4 KiB pages and hugepages from different free lists, so both have to be warmed.
//
// So this program touches KIB of memory as 4 KiB pages and as much again as hugepages. It holds
// both at the same time, so that the kernel makes neither of the other. Then it ends: the kernel
// first hands out the memory that was freed last.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

enum { kPageBytes = 4096 };
static const size_t kHugepageBytes = (size_t)2 << 20;
// Each form takes at most this part of the free memory: warming must not make the kernel reclaim
// memory.
enum { kPartOfFreeMemory = 4 };

// Touches `bytes` in pages of the form that `advice` requests. They stay until the process ends.
static int Touch(size_t bytes, int advice) {
  char* const mapped = mmap(NULL, bytes + kHugepageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    perror("bench_warm_memory: mmap");
    return 1;
  }
  char* const start =
      (char*)(((uintptr_t)mapped + kHugepageBytes - 1) & ~(uintptr_t)(kHugepageBytes - 1));
  madvise(start, bytes, advice);  // on a system without hugepages all pages are of 4 KiB
  for (size_t i = 0; i < bytes; i += kPageBytes) *(volatile char*)(start + i) = 1;
  return 0;
}

int main(int argc, char** argv) {
  char* end = NULL;
  const unsigned long long kib = argc == 2 ? strtoull(argv[1], &end, 10) : 0;
  if (argc != 2 || *argv[1] == '\0' || *end != '\0' || kib > SIZE_MAX / 2048) {
    fprintf(stderr, "usage: bench_warm_memory KIB\n");
    return 2;
  }
  struct sysinfo info;
  if (sysinfo(&info) != 0) {
    perror("bench_warm_memory: sysinfo");
    return 1;
  }
  const unsigned long long most =
      (unsigned long long)info.freeram * info.mem_unit / kPartOfFreeMemory;
  const unsigned long long wanted = kib * 1024;
  const size_t bytes = (size_t)(wanted < most ? wanted : most);
  return Touch(bytes, MADV_NOHUGEPAGE) != 0 || Touch(bytes, MADV_HUGEPAGE) != 0;
}
