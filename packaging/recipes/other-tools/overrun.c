// SPDX-License-Identifier: BSD-3-Clause
// Writes one byte past the end of an object.
#include <stdlib.h>

int main(void) {
  char* volatile object = malloc(40);
  object[40] = 1;
  free(object);
}
