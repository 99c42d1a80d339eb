// SPDX-License-Identifier: BSD-3-Clause
//
// The program of docs/system-memory.md: takes 100 MiB, frees them and waits for 8 seconds. Before
// that, after it and in the end it prints how much more memory is resident than when it began.
//
//   idle_memory          calls the allocator no more
//   idle_memory main     allocates and frees an object ten times a second
//   idle_memory thread   another thread does so
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kMiB = 1 << 20, kObjects = 100 * 1024, kSeconds = 8 };

static void* volatile objects[kObjects];

static long Resident(void) {  // in MiB
  long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) exit(1);
  fclose(file);
  return pages * sysconf(_SC_PAGESIZE) / kMiB;
}

// Allocates and frees once, ten times a second.
static void* Visit(void* unused) {
  for (int i = 0; i < kSeconds * 10; ++i) {
    objects[0] = malloc(1000);
    free(objects[0]);
    usleep(100000);
  }
  return unused;
}

int main(int argc, char** argv) {
  const char* visitor = argc > 1 ? argv[1] : "nobody";
  static char buffer[4096];
  setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
  const long start = Resident();
  for (int i = 0; i < kObjects; ++i) {
    objects[i] = malloc(1024);
    if (objects[i] == NULL) {
      printf("malloc: %s after %d MiB\n", strerror(errno), i / 1024);
      return 0;
    }
    memset(objects[i], 1, 1024);
  }
  printf("in use: %ld MiB\n", Resident() - start);
  for (int i = 0; i < kObjects; ++i) free(objects[i]);
  printf("freed: %ld MiB\n", Resident() - start);
  if (strcmp(visitor, "main") == 0) Visit(NULL);
  pthread_t thread;
  if (strcmp(visitor, "thread") == 0) pthread_create(&thread, NULL, Visit, NULL);
  if (strcmp(visitor, "main") != 0) sleep(kSeconds);
  printf("%d seconds later: %ld MiB\n", kSeconds, Resident() - start);
}
