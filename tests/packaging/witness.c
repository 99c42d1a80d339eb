// SPDX-License-Identifier: BSD-3-Clause
//
// A library to load into a program. For each of the allocator's functions that the program's
// libraries call, it writes a line "NAME FILE" with the file of the function into the file that
// WITNESS names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((destructor)) static void Tell(void) {
  static const char* const kNames[] = {"malloc", "free", "calloc", "realloc", "_Znwm", "_ZdlPv"};
  const char* const name = getenv("WITNESS");
  FILE* const file = name != NULL ? fopen(name, "w") : NULL;
  if (file == NULL) return;
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    Dl_info found;
    void* const function = dlsym(RTLD_DEFAULT, kNames[i]);
    // A C program has no operators new and delete, unless the allocator provides them.
    if (function != NULL && dladdr(function, &found) != 0) {
      fprintf(file, "%s %s\n", kNames[i], found.dli_fname);
    }
  }
  fclose(file);
}
