// SPDX-License-Identifier: BSD-3-Clause
// Allocates one object, uses it, and prints what the kernel then says of this process's memory.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Not stdio: its buffers would be further allocations.
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

int main(void) {
  char* volatile object = malloc(100);
  if (object == NULL) return 1;
  memset(object, 1, 100);
  return Print("/proc/self/smaps") || Print("/proc/self/status");
}
