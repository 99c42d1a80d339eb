// SPDX-License-Identifier: BSD-3-Clause
// A process for the tcmalloc command to look at. It obeys lines on stdin, and answers each with one
// line:
//
//   json       the text of tcmalloc_stats_json, which allocates nothing
//   objects    the address and size of each object in use, in pairs (full library)
//   profile    the profile of what is in use (full library): for each entry the requested bytes,
//              recorded objects and bytes, estimated objects and bytes, return addresses; ";"
//   peak       the profile of the peak of use
//   record     begins to record allocations
//   recorded   ends the recording; the answer is the profile of these allocations
//   more N     allocates 2 N objects at several call sites, and frees every second one
//   busy N     N threads allocate and free until "rest"
//   sleep N    N threads that have a cache and sleep again and again
//   wait N     N threads that have a cache and wait
//   rest       ends these threads
//   free       frees every second object of those made at the start
//   address    addresses: an object in use, a freed one, a large object, one on the stack
//   fork       a child that waits; the answer is its process
//   fork_more  like fork, with a child that first allocates
//   forks      a thread that forks children, which end at once, until "rest"
//   objects N SIZE  allocates N objects of SIZE bytes and does not touch them
//   leave      ends the first thread; another one obeys from then on
//   vfork      a thread that waits for the child of vfork until "rest"
//   exec       becomes another program, which sleeps
//
// The program is built without the allocator, which is then preloaded; or with LINKED, together
// with the allocator. It does not allocate between a command and its answer, so that the heap is at
// rest while the test reads it.
#define _GNU_SOURCE
#ifndef LINKED
#include <dlfcn.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tcmalloc/tcmalloc.h"

enum { kObjects = 20000, kLarge = 20, kMaxThreads = 2000, kMaxFound = 200000 };

static void* objects[kObjects];
static void* large[kLarge];
static pthread_t threads[kMaxThreads];
static int num_threads;
static atomic_int resting;
static atomic_int started;
static int until_rest[2];  // a pipe: it is closed at "rest"
static uintptr_t found[kMaxFound][2];
static size_t num_found;
static char text[1 << 22];

#ifdef LINKED
// Null where the library has no leak checker.
#pragma weak tcmalloc_for_each_object
#define FUNCTION(name) ((void*)&name)
#else
#define FUNCTION(name) dlsym(RTLD_DEFAULT, #name)
#endif

static size_t SizeOf(unsigned i) { return 8 + (i * 2654435761u >> 20) % 3000; }

static void Say(const char* line, size_t length) {
  while (length > 0) {
    const ssize_t n = write(1, line, length);
    if (n <= 0) _exit(1);
    line += n;
    length -= (size_t)n;
  }
}

static void* Busy(void* seed) {
  unsigned state = (unsigned)(uintptr_t)seed * 7919 + 1;
  void* held[64] = {0};
  atomic_fetch_add(&started, 1);
  while (!atomic_load(&resting)) {
    state = state * 1664525u + 1013904223u;
    void** const slot = &held[state >> 26];
    free(*slot);
    *slot = malloc((state >> 8) % 100 == 0 ? 300000 : SizeOf(state >> 8));
  }
  for (int i = 0; i < 64; ++i) free(held[i]);
  return NULL;
}

static void* Sleep(void* seed) {
  void* object = malloc(SizeOf((unsigned)(uintptr_t)seed));
  free(object);
  atomic_fetch_add(&started, 1);
  while (!atomic_load(&resting)) usleep(10000);
  return NULL;
}

static void* Wait(void* seed) {
  free(malloc(SizeOf((unsigned)(uintptr_t)seed)));
  atomic_fetch_add(&started, 1);
  char byte;
  while (read(until_rest[0], &byte, 1) < 0) {
  }
  return NULL;
}

static void* Forks(void* unused) {
  (void)unused;
  atomic_fetch_add(&started, 1);
  while (!atomic_load(&resting)) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
  }
  return NULL;
}

// The child shares the memory, but not the table of files: it must not keep the pipe open itself.
static void* Vforks(void* unused) {
  (void)unused;
  if (vfork() == 0) {
    char byte;
    close(until_rest[1]);
    atomic_fetch_add(&started, 1);
    while (read(until_rest[0], &byte, 1) < 0) {
    }
    _exit(0);
  }
  return NULL;
}

static pid_t Fork(void) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) pause();
}

// Returns once the child has allocated.
static void More(unsigned i);
static pid_t ForkMore(void) {
  int pipes[2];
  char byte = 0;
  if (pipe(pipes) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0; i < 1000; ++i) More(i);
    if (write(pipes[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(pipes[1]);
  if (read(pipes[0], &byte, 1) != 1) return -1;
  close(pipes[0]);
  return child;
}

static void Start(void* (*run)(void*), int n) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  atomic_store(&resting, 0);
  atomic_store(&started, 0);
  for (num_threads = 0; num_threads < n; ++num_threads) {
    if (pthread_create(&threads[num_threads], &attributes, run, (void*)(uintptr_t)num_threads)) {
      break;
    }
  }
  while (atomic_load(&started) < num_threads) usleep(1000);
  pthread_attr_destroy(&attributes);
}

static void Rest(void) {
  atomic_store(&resting, 1);
  if (until_rest[1] != 0) close(until_rest[1]);
  until_rest[1] = 0;
  for (int i = 0; i < num_threads; ++i) pthread_join(threads[i], NULL);
  num_threads = 0;
}

__attribute__((noinline)) static void* Inner(size_t bytes) {
  return memset(malloc(bytes + 1000), 1, bytes);
}

__attribute__((noinline)) static void* Outer(unsigned i) {
  void* const object = i % 2 == 0 ? malloc(SizeOf(i)) : Inner(SizeOf(i));
  return memset(object, 2, 8);
}

static void More(unsigned i) {
  Outer(i);
  void* const freed = i % 3 == 0 ? Inner(100) : Outer(i / 2);
  memset(freed, 3, 8);
  free(freed);
}

static void SeeObject(void* object, size_t bytes, void* context) {
  (void)context;
  if (num_found == kMaxFound) return;
  found[num_found][0] = (uintptr_t)object;
  found[num_found++][1] = bytes;
}

static void SayObjects(void) {
  int (*each)(void (*)(void*, size_t, void*), void*) = NULL;
  *(void**)&each = FUNCTION(tcmalloc_for_each_object);
  num_found = 0;
  if (each != NULL) each(&SeeObject, NULL);
  size_t at = 0;
  for (size_t i = 0; i < num_found && at + 64 < sizeof(text); ++i) {
    at += (size_t)snprintf(text + at, 64, "%zx %zu ", (size_t)found[i][0], (size_t)found[i][1]);
  }
  text[at++] = '\n';
  Say(text, at);
}

static size_t text_length;

static void AddEntry(const tcmalloc_profile_entry* entry, void* unused) {
  (void)unused;
  enum { kMostOfEntry = 1 << 13 };
  if (text_length + kMostOfEntry > sizeof(text)) return;
  char* at = text + text_length;
  at += sprintf(at, "%zu %llu %llu %.17g %.17g", entry->object_size, entry->recorded_objects,
                entry->recorded_bytes, entry->objects, entry->bytes);
  for (size_t i = 0; i < entry->depth; ++i) at += sprintf(at, " %zx", (size_t)entry->stack[i]);
  *at++ = ';';
  text_length = (size_t)(at - text);
}

static void SayProfile(tcmalloc_profile* profile) {
  void (*each)(const tcmalloc_profile*, tcmalloc_profile_callback, void*) = NULL;
  void (*end)(tcmalloc_profile*) = NULL;
  *(void**)&each = FUNCTION(tcmalloc_profile_for_each);
  *(void**)&end = FUNCTION(tcmalloc_profile_free);
  text_length = 0;
  if (profile != NULL) {
    each(profile, &AddEntry, NULL);
    end(profile);
  }
  text[text_length++] = '\n';
  Say(text, text_length);
}

static int SnapshotCommand(const char* command) {
  // The first call of a function that the library lacks allocates for the lookup.
  if (strcmp(command, "profile") != 0 && strcmp(command, "peak") != 0 &&
      strcmp(command, "record") != 0 && strcmp(command, "recorded") != 0) {
    return 0;
  }
  tcmalloc_profile* (*snapshot)(int) = NULL;
  tcmalloc_profile* (*stop)(void) = NULL;
  int (*start)(void) = NULL;
  *(void**)&snapshot = FUNCTION(tcmalloc_profile_snapshot);
  *(void**)&start = FUNCTION(tcmalloc_start_allocation_profiling);
  *(void**)&stop = FUNCTION(tcmalloc_stop_allocation_profiling);
  if (strcmp(command, "profile") == 0) {
    SayProfile(snapshot(TCMALLOC_PROFILE_HEAP));
  } else if (strcmp(command, "peak") == 0) {
    SayProfile(snapshot(TCMALLOC_PROFILE_PEAK_HEAP));
  } else if (strcmp(command, "recorded") == 0) {
    SayProfile(stop());
  } else if (strcmp(command, "record") == 0 && start()) {
    Say("done\n", 5);
  } else {
    return 0;
  }
  return 1;
}

static void SayJson(void) {
  size_t (*json)(char*, size_t) = NULL;
  *(void**)&json = FUNCTION(tcmalloc_stats_json);
  size_t at = json == NULL ? 0 : json(text, sizeof(text) - 1);
  text[at++] = '\n';
  Say(text, at);
}

static void* Obey(void* unused);

static int Command(const char* command) {
  if (strcmp(command, "json") == 0) {
    SayJson();
    return 1;
  }
  if (strcmp(command, "objects") == 0) {
    SayObjects();
    return 1;
  }
  if (SnapshotCommand(command)) return 1;
  if (strcmp(command, "exec") == 0) {
    Say("done\n", 5);
    execl("/bin/sleep", "sleep", "60", NULL);
    exit(1);
  }
  if (strncmp(command, "busy ", 5) == 0) {
    Start(&Busy, atoi(command + 5));
  } else if (strncmp(command, "sleep ", 6) == 0) {
    Start(&Sleep, atoi(command + 6));
  } else if (strncmp(command, "wait ", 5) == 0) {
    if (pipe(until_rest) != 0) return 0;
    Start(&Wait, atoi(command + 5));
  } else if (strcmp(command, "forks") == 0) {
    Start(&Forks, 1);
  } else if (strcmp(command, "vfork") == 0) {
    if (pipe(until_rest) != 0) return 0;
    Start(&Vforks, 1);
  } else if (strcmp(command, "leave") == 0) {
    pthread_t other;
    pthread_create(&other, NULL, &Obey, NULL);
    pthread_exit(NULL);
  } else if (strcmp(command, "fork") == 0 || strcmp(command, "fork_more") == 0) {
    const pid_t child = command[4] == '\0' ? Fork() : ForkMore();
    const int n = snprintf(text, sizeof(text), "%d\n", (int)child);
    Say(text, (size_t)n);
    return 1;
  } else if (strncmp(command, "objects ", 8) == 0) {
    char* end = NULL;
    const size_t n = strtoul(command + 8, &end, 10);
    const size_t bytes = strtoul(end, NULL, 10);
    for (size_t i = 0; i < n; ++i) {
      if (malloc(bytes) == NULL) return 0;
    }
  } else if (strncmp(command, "more ", 5) == 0) {
    for (int i = 0; i < atoi(command + 5); ++i) More((unsigned)i);
  } else if (strcmp(command, "rest") == 0) {
    Rest();
  } else if (strcmp(command, "free") == 0) {
    for (int i = 1; i < kObjects; i += 2) {
      free(objects[i]);
    }
  } else if (strcmp(command, "address") == 0) {
    const int n = snprintf(text, sizeof(text), "%p %p %p %p\n", objects[0], objects[1], large[0],
                           (void*)&command);
    Say(text, (size_t)n);
    return 1;
  } else {
    return 0;
  }
  Say("done\n", 5);
  return 1;
}

static void* Obey(void* unused) {
  (void)unused;
  Say("ready\n", 6);
  char line[64];
  for (size_t length = 0;;) {
    // Does not use stdio, which would allocate.
    if (read(0, line + length, 1) != 1) exit(0);
    if (line[length] != '\n') {
      if (++length == sizeof(line)) exit(1);
      continue;
    }
    line[length] = '\0';
    length = 0;
    if (!Command(line)) exit(1);
  }
}

int main(void) {
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = memset(malloc(SizeOf(i)), 1, SizeOf(i));
  for (unsigned i = 0; i < kLarge; ++i) large[i] = malloc(70000 + i * 50000);
  Obey(NULL);
}
