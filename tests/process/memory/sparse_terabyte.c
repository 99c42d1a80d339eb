// SPDX-License-Identifier: BSD-3-Clause
// The program of docs/system-memory.md: takes a terabyte in objects of 4 GiB, writes a
// few bytes into them, with small objects among them, trims, frees the large objects and trims
// again. It prints how long each step takes, and checks what does not depend on the machine: how
// many pages a step touches for the first time, how much a leak check reads from files, and how
// much memory the freed terabyte leaves resident.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"
#include "tcmalloc/leak_checker.h"

#pragma weak tcmalloc_check_leaks
#pragma weak tcmalloc_leaks_get_info
#pragma weak tcmalloc_leaks_free

enum {
  kMiB = 1 << 20,
  kLarge = 256,
  kWritten = 8,  // one large object in this many has a byte written
  kSmall = 32,   // small objects after each large one
  kSmallBytes = 3000,
  kKept = 8,  // one small object in this many stays
  kSkipped = 77,
  // A walk over the classes of the page map, which take two bytes a page, would alone touch 65,536
  // pages.
  kMostFaults = 1000,
  // If each slice of 8 MiB were split off, a page of 4 KiB of the page map would be backed for
  // each: 512 MiB.
  kMostLeftMiB = 64,
  // The entries of all pages of a terabyte in /proc/self/pagemap have 2 GiB. Other files that a
  // leak check reads, as /proc/self/maps, have much less than this.
  kMostReadMiB = 16,
};

static char* large[kLarge];
static char* small[kLarge * kSmall];

typedef struct {
  struct timespec time;
  long faults;
} Moment;

static Moment Now(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  Moment now = {.faults = usage.ru_minflt};
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now.time) == 0);
  return now;
}

// Prints what a step cost; returns the pages that it touched for the first time.
static long Report(const char* step, Moment start) {
  const Moment end = Now();
  const double ms = (double)(end.time.tv_sec - start.time.tv_sec) * 1e3 +
                    (double)(end.time.tv_nsec - start.time.tv_nsec) / 1e6;
  const long faults = end.faults - start.faults;
  printf("%-28s %9.2f ms %7ld page faults, %4zu MiB resident\n", step, ms, faults,
         ResidentBytes() / kMiB);
  return faults;
}

static void Trim(const char* step) {
  const Moment start = Now();
  malloc_trim(0);
  CHECK(Report(step, start) <= kMostFaults);
}

// Linux 6.7 tells which pages are backed, without an entry for each page.
static int HasPagemapScan(void) {
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  CHECK(pagemap >= 0);
  struct {
    unsigned long long words[12];
  } arguments;
  const unsigned long request = _IOWR('f', 16, arguments);  // PAGEMAP_SCAN
  const int has = ioctl(pagemap, request, NULL) < 0 && errno == EFAULT;
  close(pagemap);
  return has;
}

// The bytes that the process has read from files so far.
static size_t BytesRead(void) {
  FILE* const file = fopen("/proc/self/io", "r");
  size_t bytes = 0;
  CHECK(file != NULL && fscanf(file, "rchar: %zu", &bytes) == 1);
  fclose(file);
  return bytes;
}

// The full library has a leak checker.
static void CheckLeaks(void) {
  if (tcmalloc_check_leaks == NULL) return;
  const int scans = HasPagemapScan();
  const size_t read_before = BytesRead();
  const Moment start = Now();
  tcmalloc_leaks* const leaks = tcmalloc_check_leaks(0);
  CHECK(Report("leak check", start) <= kMostFaults);
  tcmalloc_leaks_info info;
  tcmalloc_leaks_get_info(leaks, &info);
  tcmalloc_leaks_free(leaks);
  CHECK(info.outcome == TCMALLOC_LEAKS_DONE && info.objects == 0);
  CHECK(info.objects_in_use >= kLarge + kLarge * kSmall / kKept);
  if (scans) CHECK(BytesRead() - read_before <= (size_t)kMostReadMiB * kMiB);
}

int main(void) {
  RequireLibraryUnderTest();
  static char buffer[4096];
  setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
  Moment start = Now();
  for (int i = 0; i < kLarge; ++i) {
    large[i] = Malloc((size_t)4096 * kMiB);
    if (large[i] == NULL) {
      printf("SKIP: no address space: %s\n", strerror(errno));
      return kSkipped;
    }
    if (i % kWritten == 0) large[i][(size_t)2048 * kMiB] = 1;
    for (int j = i * kSmall; j < (i + 1) * kSmall; ++j)
      small[j] = NewMarked(kSmallBytes, (unsigned)j);
  }
  Report("allocate a terabyte", start);
  const size_t before = ResidentBytes();
  for (int j = 0; j < kLarge * kSmall; ++j) {
    if (j % kKept != 0) FreeMarked(small[j], kSmallBytes, (unsigned)j);
  }
  Trim("malloc_trim");
  // The trim finds the free pages between the small objects: three of eight objects are a page.
  CHECK(ResidentBytes() < before - kLarge * kSmall / kKept * 4096);
  Trim("malloc_trim again");

  start = Now();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  // Unless the kernel always overcommits, it forks no process with more memory than the machine.
  CHECK(child > 0 || errno == ENOMEM);
  int status = 0;
  CHECK(child < 0 || (waitpid(child, &status, 0) == child && status == 0));
  Report(child < 0 ? "fork: refused" : "fork, wait", start);
  start = Now();
  (void)mallinfo2();
  CHECK(Report("mallinfo2", start) <= kMostFaults);

  CheckLeaks();

  const size_t with_large = ResidentBytes();
  start = Now();
  for (int i = 0; i < kLarge; ++i) Free(large[i]);
  Report("free the large objects", start);
  start = Now();
  malloc_trim(0);
  Report("malloc_trim", start);
  CHECK(ResidentBytes() < with_large + kMostLeftMiB * kMiB);
  Trim("malloc_trim again");
  for (int j = 0; j < kLarge * kSmall; j += kKept) FreeMarked(small[j], kSmallBytes, (unsigned)j);
}
