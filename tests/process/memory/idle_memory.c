// SPDX-License-Identifier: BSD-3-Clause
// The program of docs/system-memory.md: allocates 100 MiB, frees them, waits for 8 seconds without
// calling the allocator, then allocates and frees 4 MiB. After each step it prints how much more
// memory is resident than when it began.
//
//   idle_memory          has one thread
//   idle_memory thread   has another one, which sleeps
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMiB = 1 << 20, kObjects = 100 * 1024, kFewObjects = 4 * 1024, kSeconds = 8 };

static void* volatile objects[kObjects];

static long Resident(void) {  // in MiB
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) exit(1);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE) / kMiB;
}

static void* Sleep(void* unused) {
  pause();
  return unused;
}

static void Allocate(int n) {
  for (int i = 0; i < n; ++i) {
    objects[i] = malloc(1024);
    if (objects[i] == NULL) {
      printf("malloc: %s after %d MiB\n", strerror(errno), i / 1024);
      exit(0);
    }
    memset(objects[i], 1, 1024);
  }
}

static void Free(int n) {
  for (int i = 0; i < n; ++i) free(objects[i]);
}

int main(int argc, char** argv) {
  static char buffer[4096];
  setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
  pthread_t thread;
  if (argc > 1) pthread_create(&thread, NULL, Sleep, NULL);
  const long start = Resident();
  Allocate(kObjects);
  printf("in use: %ld MiB\n", Resident() - start);
  Free(kObjects);
  printf("freed: %ld MiB\n", Resident() - start);
  sleep(kSeconds);
  printf("%d seconds later: %ld MiB\n", kSeconds, Resident() - start);
  Allocate(kFewObjects);
  Free(kFewObjects);
  printf("after the next allocations: %ld MiB\n", Resident() - start);
}
