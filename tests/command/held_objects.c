// SPDX-License-Identifier: BSD-3-Clause
// A process that knows which objects it holds: for held_bytes_test.py.
//
// Threads allocate objects of many sizes, and all entry points take part; some objects are freed or
// resized, also by other threads. Then it prints a line "held BYTES requested BYTES": the bytes in
// use and the requested bytes of its samples before that, plus the usable and the requested sizes
// of its objects. It answers a line of stdin with the figures that the library reports in the
// process:
//
//   json, text, openmetrics, xml   the statistics in a format, then a line "end"
//   figures                        words: names and values
//
// Nothing is allocated between these. The allocator is preloaded. The argument is added to all
// sizes.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target.h"
#include "tcmalloc/tcmalloc.h"

enum { kThreads = 4, kObjectsOfThread = 400, kObjects = kThreads * kObjectsOfThread };
enum { kMaxSmall = 64 << 10 };

static const size_t kSizes[] = {0,    1,    8,     9,     24,    100,   112,   1000,   1024,
                                4000, 8192, 10000, 20000, 50000, 65536, 65537, 100000, 300000};

static struct {
  void* object;
  size_t requested;
} held[kObjects];
static size_t more;  // is added to all sizes
static pthread_barrier_t barrier;
static char text[1 << 20];
static FILE* xml;
static char xml_text[1 << 17];

#pragma weak tcmalloc_stats_text
#pragma weak tcmalloc_stats_json
#pragma weak tcmalloc_stats_openmetrics
#pragma weak tcmalloc_get_numeric_property
#pragma weak tcmalloc_list_numeric_properties
int MallocExtension_MallocMemoryStats(int*, size_t*, int*) __attribute__((weak));
// Null in the minimal library.
#pragma weak tcmalloc_for_each_object
#pragma weak tcmalloc_profile_snapshot
#pragma weak tcmalloc_profile_for_each
#pragma weak tcmalloc_profile_free

static void Check(int holds) {
  if (!holds) abort();
}

static void* New(unsigned kind, size_t size) {
  void* object = NULL;
  switch (kind % 4) {
    case 0:
      return calloc(1, size);
    case 1:
      Check(posix_memalign(&object, size > 5000 ? 4096 : 64, size) == 0);
      return object;
    case 2:
      return realloc(malloc(size / 2), size == 0 ? 1 : size);
    default:
      return malloc(size);
  }
}

// A small object that stays in its size class keeps the size that was requested first.
static void Resize(unsigned i, size_t size) {
  const size_t usable = malloc_usable_size(held[i].object);
  void* const object = realloc(held[i].object, size);
  Check(object != NULL);
  if (object != held[i].object || usable > kMaxSmall) held[i].requested = size;
  held[i].object = object;
}

static void* Work(void* number) {
  const unsigned first = (unsigned)(uintptr_t)number * kObjectsOfThread;
  free(malloc(1));
  pthread_barrier_wait(&barrier);  // all threads have what they need
  pthread_barrier_wait(&barrier);  // the first thread has read the figures
  for (unsigned i = first; i < first + kObjectsOfThread; ++i) {
    const size_t size = more + kSizes[i % (sizeof(kSizes) / sizeof(kSizes[0]))] + i % 3;
    held[i].requested = i % 4 == 2 && size == 0 ? 1 : size;
    held[i].object = New(i, size);
    Check(held[i].object != NULL);
    memset(held[i].object, 1, size / 2);
  }
  pthread_barrier_wait(&barrier);
  // Objects of the next thread.
  for (unsigned i = (first + kObjectsOfThread) % kObjects, end = i + kObjectsOfThread; i < end;
       ++i) {
    if (i % 5 == 0) {
      free(held[i].object);
      held[i].object = NULL;
    } else if (i % 5 == 1) {
      Resize(i, held[i].requested + 1 + held[i].requested % 2 * 20);
    }
  }
  pthread_barrier_wait(&barrier);
  while (pause() != 0) {
  }
  return NULL;
}

static void AddBytes(void* object, size_t bytes, void* sum) {
  (void)object;
  *(size_t*)sum += bytes;
}

static void AddEntry(const tcmalloc_profile_entry* entry, void* sum) {
  *(double*)sum += entry->bytes;
}

static size_t InUse(void) {
  size_t bytes = 0;
  Check(tcmalloc_get_numeric_property("generic.current_allocated_bytes", &bytes));
  return bytes;
}

static double Requested(void) {
  double sum = 0;
  tcmalloc_profile* const profile =
      tcmalloc_profile_snapshot == NULL ? NULL : tcmalloc_profile_snapshot(TCMALLOC_PROFILE_HEAP);
  if (profile == NULL) return 0;
  tcmalloc_profile_for_each(profile, &AddEntry, &sum);
  tcmalloc_profile_free(profile);
  return sum;
}

static size_t Xml(void) {
  rewind(xml);
  Check(malloc_info(0, xml) == 0 && fflush(xml) == 0);
  return (size_t)ftell(xml);
}

static void SayProperty(const char* name, size_t value, void* unused) {
  (void)unused;
  char line[200];
  Say(line, (size_t)snprintf(line, sizeof(line), "%s %zu ", name, value));
}

static void SayFigures(void) {
  tcmalloc_list_numeric_properties(&SayProperty, NULL);
  SayProperty("mallinfo2", mallinfo2().uordblks, NULL);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  SayProperty("mallinfo", (size_t)mallinfo().uordblks, NULL);
#pragma GCC diagnostic pop
  int objects = 0;
  int histogram[64];
  size_t bytes = 0;
  MallocExtension_MallocMemoryStats(&objects, &bytes, histogram);
  SayProperty("MallocMemoryStats", bytes, NULL);
  bytes = 0;
  if (tcmalloc_for_each_object != NULL && tcmalloc_for_each_object(&AddBytes, &bytes)) {
    SayProperty("tcmalloc_for_each_object", bytes, NULL);
  }
  if (tcmalloc_profile_snapshot != NULL)
    SayProperty("requested", (size_t)(Requested() + 0.5), NULL);
  Say("\n", 1);
}

static void Obey(char* command) {
  size_t length = 0;
  if (strcmp(command, "figures") == 0) return SayFigures();
  if (strcmp(command, "json") == 0) length = tcmalloc_stats_json(text, sizeof(text));
  if (strcmp(command, "text") == 0) length = tcmalloc_stats_text(2, text, sizeof(text));
  if (strcmp(command, "openmetrics") == 0) length = tcmalloc_stats_openmetrics(text, sizeof(text));
  if (strcmp(command, "xml") == 0) {
    length = Xml();
    Say(xml_text, length);
  } else {
    Say(text, length);
  }
  Say("\nend\n", 5);
}

int main(int argc, char** argv) {
  Check(argc == 2);
  more = strtoul(argv[1], NULL, 10);
  Check(tcmalloc_stats_json != NULL);
  xml = fmemopen(xml_text, sizeof(xml_text), "w");
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (uintptr_t i = 0; i < kThreads; ++i) {
    pthread_t thread;
    Check(pthread_create(&thread, NULL, &Work, (void*)i) == 0);
  }
  pthread_barrier_wait(&barrier);
  // The first call of a function may allocate.
  Xml();
  Requested();
  size_t bytes = InUse();
  double requested = Requested();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  for (unsigned i = 0; i < kObjects; ++i) {
    if (held[i].object == NULL) continue;
    bytes += malloc_usable_size(held[i].object);
    requested += (double)held[i].requested;
  }
  char line[200];
  Say(line,
      (size_t)snprintf(line, sizeof(line), "held %zu requested %.0f\nready\n", bytes, requested));
  ObeyLines(&Obey);
}
