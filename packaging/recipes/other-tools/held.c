// SPDX-License-Identifier: BSD-3-Clause
// Allocates 1000 objects of 1000 bytes, frees 900 of them, and ends.
#include <stdio.h>
#include <stdlib.h>

static void* volatile objects[1000];

int main(void) {
  for (int i = 0; i < 1000; i++) objects[i] = malloc(1000);
  for (int i = 0; i < 900; i++) free(objects[i]);
  for (int i = 900; i < 1000; i++) objects[i] = NULL;
  puts("ended");
}
