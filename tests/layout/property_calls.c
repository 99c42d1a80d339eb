// SPDX-License-Identifier: BSD-3-Clause
// Reads one numeric property over and over, for counting instructions.
//   property_calls NAME CALLS
// The heap has objects of many sizes, in use and free.
#include <stdio.h>
#include <stdlib.h>

__attribute__((weak)) int tcmalloc_get_numeric_property(const char* name, size_t* value);

int main(int argc, char** argv) {
  if (argc != 3 || tcmalloc_get_numeric_property == NULL) {
    fprintf(stderr, "usage: %s NAME CALLS, on the library\n", argv[0]);
    return 2;
  }
  static void* objects[300];
  for (size_t i = 0; i < 300; ++i) objects[i] = malloc(8 + i * i * 4);
  for (size_t i = 0; i < 300; i += 2) free(objects[i]);
  const long calls = atol(argv[2]);
  size_t value = 0;
  for (long i = 0; i < calls; ++i) {
    if (!tcmalloc_get_numeric_property(argv[1], &value)) {
      fprintf(stderr, "%s is no property\n", argv[1]);
      return 1;
    }
  }
  printf("%zu\n", value);
  return 0;
}
