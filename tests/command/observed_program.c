// SPDX-License-Identifier: BSD-3-Clause
// A process for the tcmalloc command to look at. It obeys the commands of kCommands on stdin, and
// answers each with one line: "done", or what the command says.
//
// The program is built without the allocator, which is then preloaded; or with LINKED, together
// with the allocator.
#define _GNU_SOURCE
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

#include "target.h"
#include "tcmalloc/tcmalloc.h"

// Threads and commands have an argument, which few use.
#pragma GCC diagnostic ignored "-Wunused-parameter"

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
// The answer.
static char text[1 << 22];
static size_t text_length;

#ifdef LINKED
// Null where the library has no leak checker.
#pragma weak tcmalloc_for_each_object
#endif

static size_t SizeOf(unsigned i) { return 8 + (i * 2654435761u >> 20) % 3000; }

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

static void* Wait(void* seed) {
  free(malloc(SizeOf((unsigned)(uintptr_t)seed)));
  atomic_fetch_add(&started, 1);
  char byte;
  while (read(until_rest[0], &byte, 1) < 0) {
  }
  return NULL;
}

static void* Forks(void* unused) {
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

static void Start(void* (*run)(void*), int n) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  atomic_store(&resting, 0);
  atomic_store(&started, 0);
  if (pipe(until_rest) != 0) exit(1);
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
  if (num_threads == 0) return;
  close(until_rest[1]);
  for (int i = 0; i < num_threads; ++i) pthread_join(threads[i], NULL);
  close(until_rest[0]);
  num_threads = 0;
}

__attribute__((noinline)) static void* Inner(size_t bytes) {
  return memset(malloc(bytes + 1000), 1, bytes);
}

__attribute__((noinline)) static void* Outer(unsigned i) {
  void* const object = i % 2 == 0 ? malloc(SizeOf(i)) : Inner(SizeOf(i));
  return memset(object, 2, 8);
}

static void SeeObject(void* object, size_t bytes, void* context) {
  if (num_found == kMaxFound) return;
  found[num_found][0] = (uintptr_t)object;
  found[num_found++][1] = bytes;
}

static void AddEntry(const tcmalloc_profile_entry* entry, void* unused) {
  enum { kMostOfEntry = 1 << 13 };
  if (text_length + kMostOfEntry > sizeof(text)) return;
  char* at = text + text_length;
  at += sprintf(at, "%zu %llu %llu %.17g %.17g", entry->object_size, entry->recorded_objects,
                entry->recorded_bytes, entry->objects, entry->bytes);
  for (size_t i = 0; i < entry->depth; ++i) at += sprintf(at, " %zx", (size_t)entry->stack[i]);
  *at++ = ';';
  text_length = (size_t)(at - text);
}

static void WriteProfile(tcmalloc_profile* profile) {
  void (*each)(const tcmalloc_profile*, tcmalloc_profile_callback, void*) = NULL;
  void (*end)(tcmalloc_profile*) = NULL;
  *(void**)&each = FUNCTION(tcmalloc_profile_for_each);
  *(void**)&end = FUNCTION(tcmalloc_profile_free);
  text_length = 0;
  if (profile != NULL) {
    each(profile, &AddEntry, NULL);
    end(profile);
  }
}

static tcmalloc_profile* Snapshot(int kind) {
  tcmalloc_profile* (*snapshot)(int) = NULL;
  *(void**)&snapshot = FUNCTION(tcmalloc_profile_snapshot);
  return snapshot(kind);
}

// The commands. `argument` is the rest of the line.

static void Json(const char* argument) {
  size_t (*json)(char*, size_t) = NULL;
  *(void**)&json = FUNCTION(tcmalloc_stats_json);
  text_length = json(text, sizeof(text) - 1);
}

// The address and size of each object in use, in pairs (full library).
static void Objects(const char* argument) {
  int (*each)(void (*)(void*, size_t, void*), void*) = NULL;
  *(void**)&each = FUNCTION(tcmalloc_for_each_object);
  num_found = text_length = 0;
  if (each != NULL) each(&SeeObject, NULL);
  for (size_t i = 0; i < num_found && text_length + 64 < sizeof(text); ++i) {
    text_length +=
        (size_t)sprintf(text + text_length, "%zx %zu ", (size_t)found[i][0], (size_t)found[i][1]);
  }
}

// For each entry: requested bytes, recorded objects and bytes, estimated objects and bytes, return
// addresses; ";" (full library).
static void Profile(const char* argument) { WriteProfile(Snapshot(TCMALLOC_PROFILE_HEAP)); }
static void Peak(const char* argument) { WriteProfile(Snapshot(TCMALLOC_PROFILE_PEAK_HEAP)); }

static void Record(const char* argument) {
  int (*start)(void) = NULL;
  *(void**)&start = FUNCTION(tcmalloc_start_allocation_profiling);
  if (!start()) exit(1);
}
static void Recorded(const char* argument) {
  tcmalloc_profile* (*stop)(void) = NULL;
  *(void**)&stop = FUNCTION(tcmalloc_stop_allocation_profiling);
  WriteProfile(stop());
}

// Allocates 2 N objects at several call sites, and frees every second one.
static void More(const char* argument) {
  const int n = atoi(argument);
  for (unsigned i = 0; (int)i < n; ++i) {
    Outer(i);
    void* const freed = i % 3 == 0 ? Inner(100) : Outer(i / 2);
    memset(freed, 3, 8);
    free(freed);
  }
}

// N threads, which end at "rest": they allocate and free; have a cache and wait; fork children,
// which end at once; wait for the child of vfork.
static void StartBusy(const char* n) { Start(&Busy, atoi(n)); }
static void StartWait(const char* n) { Start(&Wait, atoi(n)); }
static void StartForks(const char* n) { Start(&Forks, atoi(n)); }
static void StartVforks(const char* n) { Start(&Vforks, atoi(n)); }
static void EndThreads(const char* argument) { Rest(); }

// Frees every second object of those made at the start.
static void Free(const char* argument) {
  for (int i = 1; i < kObjects; i += 2) free(objects[i]);
}

// Prints the addresses of an object in use, a freed one, a large object, and an address on the
// stack.
static void Address(const char* argument) {
  text_length =
      (size_t)sprintf(text, "%p %p %p %p", objects[0], objects[1], large[0], (void*)&argument);
}

// A child that allocates 2 N objects, and waits. The answer is its process.
static void Fork(const char* n) {
  int pipes[2];
  char byte = 0;
  if (pipe(pipes) != 0) exit(1);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(until_rest[1]);
    More(n);
    if (write(pipes[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(pipes[1]);
  if (read(pipes[0], &byte, 1) != 1) exit(1);
  close(pipes[0]);
  text_length = (size_t)sprintf(text, "%d", (int)child);
}

// Allocates N objects of SIZE bytes and does not touch them.
static void Untouched(const char* argument) {
  char* end = NULL;
  const size_t n = strtoul(argument, &end, 10);
  const size_t bytes = strtoul(end, NULL, 10);
  for (size_t i = 0; i < n; ++i) {
    if (malloc(bytes) == NULL) exit(1);
  }
}

// Ends the first thread; another one obeys from then on, and says "ready".
static void* Obey(void* unused);
static void Leave(const char* argument) {
  pthread_t other;
  pthread_create(&other, NULL, &Obey, NULL);
  pthread_exit(NULL);
}

// Becomes another program.
static void Exec(const char* argument) {
  Say("done\n", 5);
  execl("/bin/sleep", "sleep", "60", NULL);
  exit(1);
}

static const struct {
  const char* name;
  void (*run)(const char* argument);
} kCommands[] = {
    {"json", &Json},           {"objects", &Objects},   {"profile", &Profile},
    {"peak", &Peak},           {"record", &Record},     {"recorded", &Recorded},
    {"more", &More},           {"busy", &StartBusy},    {"wait", &StartWait},
    {"forks", &StartForks},    {"vfork", &StartVforks}, {"rest", &EndThreads},
    {"free", &Free},           {"address", &Address},   {"fork", &Fork},
    {"untouched", &Untouched}, {"leave", &Leave},       {"exec", &Exec},
};

static void Command(char* line) {
  char* argument = strchr(line, ' ');
  if (argument == NULL) {
    argument = line + strlen(line);
  } else {
    *argument++ = '\0';
  }
  for (size_t i = 0; i < sizeof(kCommands) / sizeof(*kCommands); ++i) {
    if (strcmp(line, kCommands[i].name) != 0) continue;
    text_length = (size_t)sprintf(text, "done");
    kCommands[i].run(argument);
    text[text_length++] = '\n';
    Say(text, text_length);
    return;
  }
  exit(1);
}

static void* Obey(void* unused) {
  Say("ready\n", 6);
  ObeyLines(&Command);
  return NULL;
}

int main(void) {
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = memset(malloc(SizeOf(i)), 1, SizeOf(i));
  for (unsigned i = 0; i < kLarge; ++i) large[i] = malloc(70000 + i * 50000);
  Obey(NULL);
}
