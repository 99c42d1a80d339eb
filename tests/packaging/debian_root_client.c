/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the version of the allocator's interface, and the file of its library. */
#include <gperftools/tcmalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "r");
  void* volatile object = malloc(100000);
  free(object);
  printf("%s", tc_version(NULL, NULL, NULL));
  while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
    const char* file = strchr(line, '/');
    if (file != NULL && strstr(file, "libtcmalloc") != NULL) {
      printf(" %s", file);
      return 0;
    }
  }
  printf(" no library\n");
  return 1;
}
