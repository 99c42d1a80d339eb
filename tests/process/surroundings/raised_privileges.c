// SPDX-License-Identifier: BSD-3-Clause
// The program of raised_privileges_test.py: writes nothing itself. It allocates, also an object
// that deserves a report, and leaks one. With the argument `misuse` it frees an object twice.
#include <stdlib.h>
#include <string.h>

static void* volatile leaked;

int main(int argc, char** argv) {
  leaked = malloc(3000000);
  if (leaked == NULL) return 1;
  leaked = NULL;
  for (int i = 0; i < 1000; ++i) {
    void* volatile object = malloc((size_t)i * 100 + 1);
    free(object);
  }
  if (argc > 1 && strcmp(argv[1], "misuse") == 0) {
    void* volatile object = malloc(100);
    free(object);
    free(object);
  }
  return 0;
}
