// SPDX-License-Identifier: BSD-3-Clause
// Shared by programs that the tests of the tcmalloc command look at. They obey lines on stdin, and
// do not allocate between a line and its answer: they do not use stdio.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#ifdef LINKED
#define FUNCTION(name) ((void*)&(name))
#else
#include <dlfcn.h>
#define FUNCTION(name) dlsym(RTLD_DEFAULT, #name)
#endif

static inline void Say(const char* line, size_t length) {
  while (length > 0) {
    const ssize_t n = write(1, line, length);
    if (n <= 0) _exit(1);
    line += n;
    length -= (size_t)n;
  }
}

// Passes each line of stdin to `obey`, and ends the program at the end of stdin.
static inline void ObeyLines(void (*obey)(char* line)) {
  char line[64];
  for (size_t length = 0;;) {
    if (read(0, line + length, 1) != 1) exit(0);
    if (line[length] != '\n') {
      if (++length == sizeof(line)) exit(1);
      continue;
    }
    line[length] = '\0';
    length = 0;
    obey(line);
  }
}
