// SPDX-License-Identifier: BSD-3-Clause
// A library to preload after the allocator: its thread makes the library's own leak check whenever
// a byte arrives in the FIFO CHECK_INSIDE.ask, and writes the address and size of each leaked
// object, a line each, then "end", into the FIFO CHECK_INSIDE.answer.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tcmalloc/leak_checker.h"

static char ask[4096];
static char answer[4096];

static void WriteObject(const tcmalloc_leak_site* site, void* to) {
  dprintf(*(int*)to, "%p %llu\n", site->example, site->bytes);
}

// Runs in a thread of its own, so that its registers and its stack disappear with it.
static void* Check(void* unused) {
  (void)unused;
  int to = open(answer, O_WRONLY | O_CLOEXEC);
  if (to < 0) return NULL;
  tcmalloc_leaks* const leaks = tcmalloc_check_leaks(TCMALLOC_LEAKS_BY_OBJECT);
  tcmalloc_leaks_info info;
  tcmalloc_leaks_get_info(leaks, &info);
  tcmalloc_leaks_for_each(leaks, &WriteObject, &to);
  tcmalloc_leaks_free(leaks);
  dprintf(to, "end %d\n", info.outcome);
  close(to);
  return NULL;
}

static void* Serve(void* unused) {
  for (;;) {
    const int from = open(ask, O_RDONLY | O_CLOEXEC);
    char byte;
    if (from < 0) return NULL;
    const ssize_t n = read(from, &byte, 1);
    close(from);
    if (n != 1) continue;
    pthread_t thread;
    if (pthread_create(&thread, NULL, &Check, unused) != 0) return NULL;
    pthread_join(thread, NULL);
  }
}

__attribute__((constructor)) static void Start(void) {
  const char* const name = getenv("CHECK_INSIDE");
  pthread_t thread;
  if (name == NULL) return;
  snprintf(ask, sizeof(ask), "%s.ask", name);
  snprintf(answer, sizeof(answer), "%s.answer", name);
  unsetenv("CHECK_INSIDE");  // programs that the process starts must not answer
  pthread_create(&thread, NULL, &Serve, NULL);
}
