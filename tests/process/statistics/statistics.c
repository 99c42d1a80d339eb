/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with known objects, for statistics_test.py.
 *
 *   statistics FORMAT   json, openmetrics or xml: writes the statistics before and after some
 *                       allocations, each followed by a line "=== BYTES" with the bytes of the
 *                       program's objects, rounded up to the allocator's sizes
 *   statistics large    makes large allocations in every way there is, with a callback that writes
 *                       "callback BYTES" to stdout; then JSON
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tcmalloc/tcmalloc.h>

#include "../check.h"

#pragma weak tcmalloc_stats_json
#pragma weak tcmalloc_stats_openmetrics
#pragma weak tcmalloc_set_large_allocation_callback
#pragma weak tcmalloc_set_large_allocation_threshold

enum { kObjects = 20000, kText = 1 << 18 };

static void* objects[kObjects];
static char before[kText];
static char after[kText];

static void WriteXml(char* buffer, size_t length) {
  FILE* const file = fmemopen(buffer, length, "w");
  CHECK(file != NULL);
  CHECK(malloc_info(0, file) == 0);
  CHECK(fclose(file) == 0);
}

static void Write(const char* format, char* buffer, size_t length) {
  if (strcmp(format, "json") == 0) {
    CHECK(tcmalloc_stats_json(buffer, length) < length);
  } else if (strcmp(format, "openmetrics") == 0) {
    CHECK(tcmalloc_stats_openmetrics(buffer, length) < length);
  } else {
    WriteXml(buffer, length);
  }
}

/* Objects of all sizes; two thirds of them stay. */
static size_t Work(void) {
  size_t held = 0;
  uint64_t random = 12345;
  for (size_t i = 0; i < kObjects; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t size = i % 500 == 0 ? 300000 + (random >> 40) : (random >> 33) % 4000;
    objects[i] = Malloc(size);
    CHECK(objects[i] != NULL);
  }
  for (size_t i = 0; i < kObjects; ++i) {
    if (i % 3 == 0) {
      Free(objects[i]);
    } else {
      held += malloc_usable_size(objects[i]);
    }
  }
  return held;
}

static void WriteBoth(const char* format) {
  /* Allocates the stream's buffer and the memory of the format before the first figures. */
  printf("%s\n", format);
  Write(format, before, sizeof(before));
  Write(format, before, sizeof(before));
  const size_t held = Work();
  Write(format, after, sizeof(after));
  printf("%s\n=== 0\n%s\n=== %zu\n", before, after, held);
}

static void Report(void* object, size_t bytes, void* context) {
  CHECK(context == objects && object != NULL);
  printf("callback %zu\n", bytes);
  Free(Malloc(2 * bytes)); /* counted, not reported */
}

/* The program never writes to these objects. */
static void Large(void) {
  const size_t kGiB = (size_t)1 << 30;
  const size_t kTenth = kGiB / 10;
  printf("buffered\n");
  tcmalloc_set_large_allocation_callback(&Report, objects);
  char* const zeroes = Calloc(3, kGiB / 2); /* reported; the next report is at 1.125 GiB or more */
  CHECK(zeroes != NULL && zeroes[0] == 0 && zeroes[kGiB] == 0);
  Free(zeroes);
  Free(Malloc(kGiB - 1)); /* not counted */
  Free(Malloc(kGiB));
  void* aligned = NULL;
  CHECK(posix_memalign(&aligned, 1 << 20, 12 * kTenth) == 0); /* reported: 1.266 GiB */
  Free(aligned);
  void* grown = Realloc(Malloc(1000), 20 * kTenth); /* reported: 1.424 GiB */
  CHECK(grown != NULL);
  /* From now on the object is resized in place. */
  CHECK(Realloc(grown, 9 * kTenth) == grown);
  CHECK(Realloc(grown, 14 * kTenth) == grown);
  CHECK(Realloc(grown, 19 * kTenth) == grown); /* reported */
  CHECK(Realloc(grown, 18 * kTenth) == grown); /* not counted */
  Free(grown);
  CHECK(Malloc(SIZE_MAX / 2 - (1 << 20)) == NULL); /* a failed request is not counted */
  CHECK(tcmalloc_stats_json(after, sizeof(after)) < sizeof(after));
  puts(after);
}

int main(int count, char** arguments) {
  RequireLibraryUnderTest();
  CHECK(count == 2);
  if (strcmp(arguments[1], "large") == 0) {
    Large();
  } else {
    WriteBoth(arguments[1]);
  }
  return 0;
}
