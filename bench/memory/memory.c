// SPDX-License-Identifier: BSD-3-Clause

// bench_memory: measures how much resident memory a program's objects take under the allocator that
// is preloaded into it. The program allocates nothing itself: it reads /proc by read(2) into a
// static buffer, prints by write(2), and maps and touches its own arrays before the first figure.
//
//   bench_memory once                        after one allocation
//       vm_rss_kib N    rss_kib N
//   bench_memory live SIZE COUNT             COUNT live objects of SIZE bytes, each written
//       bytes_per_object N.NNN
//   bench_memory bursts SIZE COUNT ROUNDS    allocate COUNT, free all, ROUNDS times
//       round I full_kib N freed_kib N
//
// vm_rss is VmRSS of /proc/self/status, which recent kernels sum up from per-processor counters
// with an error of up to some hundred KiB. All other figures are Rss of /proc/self/smaps_rollup,
// for which the kernel walks the page tables: exact.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char kExact[] = "/proc/self/smaps_rollup";
static const char kCounted[] = "/proc/self/status";

__attribute__((format(printf, 1, 2))) static void Say(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (write(STDOUT_FILENO, text, (size_t)length) != length) _exit(1);
}

__attribute__((noreturn)) static void Fail(const char* what) {
  const char* const parts[] = {"bench_memory: ", what, "\n"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); ++i) {
    if (write(STDERR_FILENO, parts[i], strlen(parts[i])) < 0) break;
  }
  _exit(1);
}

// Returns the number of KiB in the line of the file at `path` that begins with `key`.
static long ReadKib(const char* path, const char* key) {
  static char buffer[8192];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) Fail(path);
  size_t length = 0;
  for (;;) {
    const ssize_t count = read(file, buffer + length, sizeof(buffer) - 1 - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail(path);
    if (count == 0) break;
    length += (size_t)count;
  }
  close(file);
  buffer[length] = '\0';
  const char* line = buffer;
  while (line != NULL && strncmp(line, key, strlen(key)) != 0) {
    line = strchr(line, '\n');
    if (line != NULL) ++line;
  }
  if (line == NULL) Fail(key);
  return strtol(line + strlen(key), NULL, 10);
}

static long RssKib(void) { return ReadKib(kExact, "Rss:"); }

// Makes the memory resident that measuring and reporting use: buffers, stack, code of the C
// library.
static void WarmUp(void) {
  ReadKib(kCounted, "VmRSS:");
  RssKib();
  char text[256];
  snprintf(text, sizeof(text), "%ld.%03ld", 1L, 1L);
}

// Maps an array that is resident from the start.
static void* MapArray(size_t bytes) {
  void* array =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (array == MAP_FAILED) Fail("mmap");
  memset(array, 1, bytes);
  return array;
}

static void AllocateAll(void** objects, size_t count, size_t size) {
  for (size_t i = 0; i < count; ++i) {
    objects[i] = malloc(size);
    if (objects[i] == NULL) Fail("malloc");
    memset(objects[i], 1, size);
  }
}

static void FreeAll(void** objects, size_t count) {
  for (size_t i = 0; i < count; ++i) free(objects[i]);
}

static void Once(void) {
  WarmUp();
  char* volatile object = malloc(64);
  if (object == NULL) Fail("malloc");
  *object = 1;
  const long exact = RssKib();
  const long counted = ReadKib(kCounted, "VmRSS:");
  Say("vm_rss_kib %ld\nrss_kib %ld\n", counted, exact);
}

static void Live(size_t size, size_t count) {
  void** objects = MapArray(count * sizeof(*objects));
  WarmUp();
  const long before = RssKib();
  AllocateAll(objects, count, size);
  const long after = RssKib();
  // Thousandths of a byte, rounded.
  const long long cost =
      ((long long)(after - before) * 1024 * 1000 + (long long)(count / 2)) / (long long)count;
  Say("bytes_per_object %lld.%03lld\n", cost / 1000, cost % 1000);
}

static void Bursts(size_t size, size_t count, size_t rounds) {
  struct Round {
    long full_kib;
    long freed_kib;
  };
  void** objects = MapArray(count * sizeof(*objects));
  struct Round* results = MapArray(rounds * sizeof(*results));
  WarmUp();
  for (size_t i = 0; i < rounds; ++i) {
    AllocateAll(objects, count, size);
    results[i].full_kib = RssKib();
    FreeAll(objects, count);
    results[i].freed_kib = RssKib();
  }
  for (size_t i = 0; i < rounds; ++i) {
    Say("round %zu full_kib %ld freed_kib %ld\n", i + 1, results[i].full_kib, results[i].freed_kib);
  }
}

// Parses a number between 1 and an upper bound that keeps every product below 2^63.
static size_t ParseCount(const char* text) {
  char* end = NULL;
  errno = 0;
  const unsigned long value = strtoul(text, &end, 10);
  if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value == 0 ||
      value > 4000000000UL) {
    Fail("SIZE, COUNT and ROUNDS are numbers from 1 to 4000000000");
  }
  return value;
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "once") == 0 && argc == 2) {
    Once();
  } else if (strcmp(mode, "live") == 0 && argc == 4) {
    Live(ParseCount(argv[2]), ParseCount(argv[3]));
  } else if (strcmp(mode, "bursts") == 0 && argc == 5) {
    Bursts(ParseCount(argv[2]), ParseCount(argv[3]), ParseCount(argv[4]));
  } else {
    Fail("usage: bench_memory once | live SIZE COUNT | bursts SIZE COUNT ROUNDS");
  }
  return 0;
}
