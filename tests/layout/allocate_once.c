// SPDX-License-Identifier: BSD-3-Clause
// Allocates one object and uses it. With an argument it then prints the kernel's figures of this
// process's memory.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Does not use stdio, whose buffers would be further allocations.
static int Print(const char* path) {
  static char text[16384];
  const int file = open(path, O_RDONLY);
  if (file < 0) return 1;
  ssize_t n;
  while ((n = read(file, text, sizeof(text))) > 0) {
    if (write(1, text, (size_t)n) != n) return 1;
  }
  close(file);
  return n < 0;
}

int main(int argc, char** argv) {
  char* volatile object = malloc(100);
  if (object == NULL) return 1;
  memset(object, 1, 100);
  (void)argv;
  if (argc == 1) return 0;
  return Print("/proc/self/smaps") || Print("/proc/self/status");
}
