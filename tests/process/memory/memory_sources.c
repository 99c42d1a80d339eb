// SPDX-License-Identifier: BSD-3-Clause
// A program whose heap takes memory from the source that the environment selects.
//
//   memory_sources work PLACE SHARED   checks that objects lie in PLACE: the beginning of the name
//                                      of a mapping, "" for one without a name; allocates and
//                                      frees at random in two threads; forks, and with SHARED 0
//                                      lets the child do the same
//   memory_sources fill PLACE          allocates 32 MiB; prints how many MiB lie in PLACE
//   memory_sources exhaust PLACE       allocates until that fails, frees, and again
//   memory_sources nothing             no allocation may succeed, nor end the process
//   memory_sources without_mmap PLACE  as work, after mmap has begun to fail
//   memory_sources close PLACE FILE    closes all descriptors, opens FILE; prints as fill
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>

#include "../check.h"
#include "../refuse_calls.h"

enum { kMiB = 1 << 20, kMostMiB = 256 };

static const char* place;
static char maps[1 << 20];

// True if the object lies in a mapping whose name begins with `place`. Allocates nothing.
static int IsInPlace(const void* object) {
  ReadFile("/proc/self/maps", maps, sizeof(maps));
  for (char *line = maps, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    unsigned long first, last;
    int name = 0;
    CHECK(sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &first, &last, &name) == 2 && name > 0);
    if ((uintptr_t)object < first || (uintptr_t)object >= last) continue;
    return *place == '\0' ? line[name] == '\0' : strncmp(line + name, place, strlen(place)) == 0;
  }
  CHECK(!"mapped");
  return 0;
}

static unsigned Random(unsigned* state) {
  *state = *state * 1664525 + 1013904223;
  return *state >> 8;
}

// Few objects are large, since these take most of the time.
static size_t SizeOf(unsigned i) {
  return (i % 100 == 0 ? 2 * kMiB : i % 50 == 1 ? 400000 : i % 5 == 2 ? 20000 : 600) - i;
}

// Allocates and frees objects of all sizes and checks their contents; they must be zero at first.
static void* AllocateAtRandom(void* seed) {
  enum { kObjects = 300, kSteps = 20000 };
  static _Thread_local char* objects[kObjects];
  unsigned state = (unsigned)(uintptr_t)seed;
  for (unsigned step = 0; step < kSteps + kObjects; ++step) {
    // The last steps free all.
    const unsigned i = step < kSteps ? Random(&state) % kObjects : step - kSteps;
    if (objects[i] != NULL) {
      FreeMarked(objects[i], SizeOf(i), i);
      objects[i] = NULL;
    } else if (step < kSteps) {
      objects[i] = (char*)Calloc(1, SizeOf(i));
      CHECK(objects[i] != NULL);
      CheckMarked(objects[i], SizeOf(i), 0);
      memset(objects[i], (int)(i & 0xff), SizeOf(i));
    }
    if (step % 4000 == 0) malloc_trim(0);
  }
  return NULL;
}

static void AllocateInThreads(unsigned seed) {
  const pthread_t thread = StartThread(&AllocateAtRandom, (void*)(uintptr_t)(seed + 1));
  AllocateAtRandom((void*)(uintptr_t)seed);
  JoinThread(thread);
}

static void CheckPlace(void) {
  static const size_t kSizes[] = {1, 100, 5000, 100000, 300000, 3 * kMiB, 20 * kMiB};
  for (unsigned i = 0; i < sizeof(kSizes) / sizeof(kSizes[0]); ++i) {
    char* object = NewMarked(kSizes[i], i + 1);
    CHECK(IsInPlace(object));
    CHECK(IsInPlace(object + kSizes[i] - 1));
    FreeMarked(object, kSizes[i], i + 1);
  }
}

static void Work(int shared) {
  CheckPlace();
  AllocateInThreads(60);
  enum { kKept = 100 };
  char* kept[kKept];
  for (unsigned i = 0; i < kKept; ++i) kept[i] = NewMarked(1 + i * 1000, i);
  pid_t child = fork();
  if (child == 0) {
    if (shared) _exit(0);
    for (unsigned i = 0; i < kKept; ++i) FreeMarked(kept[i], 1 + i * 1000, i);
    AllocateInThreads(62);
    _exit(0);
  }
  if (!shared) AllocateInThreads(64);
  AwaitChild(child);
  for (unsigned i = 0; i < kKept; ++i) FreeMarked(kept[i], 1 + i * 1000, i);
  AllocateInThreads(66);
  CheckPlace();
}

static void Fill(void) {
  static char* objects[32];
  int in_place = 0;
  for (unsigned i = 0; i < 32; ++i) {
    objects[i] = NewMarked(kMiB, i);
    in_place += IsInPlace(objects[i]);
  }
  for (unsigned i = 0; i < 32; ++i) FreeMarked(objects[i], kMiB, i);
  printf("%d\n", in_place);
}

static void Exhaust(void) {
  static char* objects[kMostMiB];
  unsigned counts[2];
  for (int round = 0; round < 2; ++round) {
    unsigned n = 0;
    while (n < kMostMiB) {
      errno = 0;
      char* object = (char*)Malloc(kMiB);
      if (object == NULL) break;
      CHECK(errno == 0);
      CHECK(IsInPlace(object));
      memset(object, (int)n, kMiB);
      objects[n++] = object;
    }
    CHECK(n < kMostMiB);
    CHECK(errno == ENOMEM);
    CHECK(Calloc(1, 2 * kMiB) == NULL && errno == ENOMEM);
    for (unsigned i = 0; i < n; ++i) FreeMarked(objects[i], kMiB, i);
    counts[round] = n;
  }
  CHECK(counts[0] == counts[1]);
  printf("%u\n", counts[0]);
}

static void* NothingInThread(void* unused) {
  (void)unused;
  errno = 0;
  CHECK(Malloc(100) == NULL && errno == ENOMEM);
  Free(NULL);
  return NULL;
}

static void Nothing(void) {
  static const size_t kSizes[] = {0, 1, 8, 100, 5000, 100000, 300000, 3 * kMiB};
  for (unsigned i = 0; i < sizeof(kSizes) / sizeof(kSizes[0]); ++i) {
    const size_t size = kSizes[i];
    errno = 0;
    CHECK(Malloc(size) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(Calloc(1, size) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(Realloc(NULL, size) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(memalign(4096, size) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(aligned_alloc(64, size) == NULL && errno == ENOMEM);
    void* result = &errno;
    errno = 0;
    CHECK(posix_memalign(&result, 64, size) == ENOMEM && result == &errno && errno == ENOMEM);
  }
  Free(NULL);
  CHECK(malloc_usable_size(NULL) == 0);
  malloc_trim(0);
  CHECK(mallinfo2().uordblks == 0);
  pid_t child = fork();
  if (child == 0) {
    NothingInThread(NULL);
    _exit(0);
  }
  AwaitChild(child);
  pthread_t thread;
  // The C library may need memory for the thread.
  if (pthread_create(&thread, NULL, &NothingInThread, NULL) == 0) pthread_join(thread, NULL);
}

static void CloseAll(const char* file) {
  for (int fd = 3; fd < 4096; ++fd) close(fd);
  // Opens files that get the numbers of the closed descriptors.
  for (int i = 0; i < 1000; ++i) CHECK(open(file, O_RDWR) >= 3);
}

int main(int argc, char** argv) {
  // The check for the library needs memory.
  if (strcmp(argv[1], "nothing") == 0) {
    Nothing();
    return 0;
  }
  RequireLibraryUnderTest();
  CHECK(argc >= 3);
  place = argv[2];
  if (strcmp(argv[1], "work") == 0) {
    CHECK(argc == 4);
    Work(atoi(argv[3]));
  } else if (strcmp(argv[1], "fill") == 0) {
    Fill();
  } else if (strcmp(argv[1], "exhaust") == 0) {
    Exhaust();
  } else if (strcmp(argv[1], "without_mmap") == 0) {
    RefuseCalls("mmap@2:3=ENOMEM");  // readable and writable memory
    char* fresh = NewMarked(64 * kMiB, 1);
    CHECK(IsInPlace(fresh));
    AllocateAtRandom((void*)(uintptr_t)61);
    FreeMarked(fresh, 64 * kMiB, 1);
  } else {
    CHECK(strcmp(argv[1], "close") == 0 && argc == 4);
    Free(NewMarked(kMiB, 0));
    CloseAll(argv[3]);
    Fill();
  }
  return 0;
}
