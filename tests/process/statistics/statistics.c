/* SPDX-License-Identifier: BSD-3-Clause */
/*
 *   statistics json|openmetrics   writes the statistics in that format
 *   statistics large              makes large allocations in every way there is, with a callback
 * that writes "callback BYTES" to stdout; then writes JSON
 */
#define _GNU_SOURCE
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

static char text[1 << 18];

static void Write(size_t (*statistics)(char*, size_t)) {
  CHECK(statistics(text, sizeof(text)) < sizeof(text));
  puts(text);
}

static void Report(void* object, size_t bytes, void* context) {
  CHECK(context == text && object != NULL);
  printf("callback %zu\n", bytes);
  Free(Malloc(2 * bytes)); /* counted, not reported */
}

/* The program never writes to these objects. */
static void Large(void) {
  const size_t kGiB = (size_t)1 << 30;
  const size_t kTenth = kGiB / 10;
  printf("buffered\n");
  tcmalloc_set_large_allocation_callback(&Report, text);
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
  Write(&tcmalloc_stats_json);
}

int main(int count, char** arguments) {
  RequireLibraryUnderTest();
  CHECK(count == 2);
  if (strcmp(arguments[1], "large") == 0) Large();
  if (strcmp(arguments[1], "json") == 0) Write(&tcmalloc_stats_json);
  if (strcmp(arguments[1], "openmetrics") == 0) Write(&tcmalloc_stats_openmetrics);
  return 0;
}
