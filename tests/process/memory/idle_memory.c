// SPDX-License-Identifier: BSD-3-Clause
//
// The program of docs/system-memory.md: takes 100 MiB, frees them and waits for 8 seconds. Before
// that, after it and in the end it prints how much more memory is resident than when it began.
//
// It does not call the allocator after it has freed.
//
//   idle_memory          has one thread
//   idle_memory thread   has another one, which sleeps
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

static void* Sleep(void* unused) {
  pause();
  return unused;
}

int main(int argc, char** argv) {
  static char buffer[4096];
  setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
  pthread_t thread;
  if (argc > 1) pthread_create(&thread, NULL, Sleep, NULL);
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
  sleep(kSeconds);
  printf("%d seconds later: %ld MiB\n", kSeconds, Resident() - start);
}
