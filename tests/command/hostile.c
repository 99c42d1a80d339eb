// SPDX-License-Identifier: BSD-3-Clause
// Processes that are hard to look at, for distrust_test.py:
//   hostile names      names of threads and of mappings with escapes and bytes that are no text
//   hostile changes    a thread maps and unmaps memory all the time
//   hostile mappings   20,000 mappings of one page
//   hostile modules    2,000 mappings that claim to be the start of an ELF file
//   hostile served     a file with code whose pages a userfaultfd serves, and nobody answers; says
//                      "none" before where the kernel forbids that
// Each says "ready" and waits for the end of its input.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { kPage = 4096, kManyMappings = 20000, kManyModules = 2000 };

static void* kept[1000];

// Maps a file with a path of 4,000 bytes, in folders whose names have escapes.
static void MapFileOfLongName(void) {
  char folder[] = "/tmp/hostile.XXXXXX";
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) exit(1);
  char name[201];
  memset(name, 'x', sizeof(name));
  memcpy(name, "\x1b[31m\xff\n\x9b\xe2\x80\xae", 11);
  name[200] = '\0';
  for (int i = 0; i < 19; ++i) {
    if (mkdir(name, 0700) != 0 || chdir(name) != 0) exit(1);
  }
  const int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0 || ftruncate(file, kPage) != 0) exit(1);
  if (mmap(NULL, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) exit(1);
  // Removes the folders at once, from the innermost one on; the mapping keeps the name.
  unlink(name);
  for (int i = 0; i < 19; ++i) {
    if (chdir("..") != 0 || rmdir(name) != 0) exit(1);
  }
  if (chdir("/") != 0 || rmdir(folder) != 0) exit(1);
}

static void* Change(void* argument) {
  for (;;) {
    void* memory[64];
    for (int i = 0; i < 64; ++i) {
      memory[i] =
          mmap(NULL, (size_t)(i + 1) * kPage, i % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    for (int i = 0; i < 64; ++i) munmap(memory[i], (size_t)(i + 1) * kPage);
  }
  return argument;
}

static void MapMany(int n, int file, const char* head, size_t bytes) {
  for (int i = 0; i < n; ++i) {
    // Neighbours with different rights remain mappings of their own.
    char* const memory =
        mmap(NULL, kPage, i % 2 == 0 || file >= 0 ? PROT_READ | PROT_WRITE : PROT_READ,
             file >= 0 ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    if (memory == MAP_FAILED) exit(1);
    if (head != NULL) memcpy(memory, head, bytes);
    if (file >= 0) mprotect(memory, kPage, PROT_READ | PROT_EXEC);
  }
}

static void MapServed(void) {
  const int server = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  const int file = memfd_create("served", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kPage) != 0) exit(1);
  char* const memory = mmap(NULL, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
  struct uffdio_register range = {.range = {(uintptr_t)memory, kPage},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (server < 0 || ioctl(server, UFFDIO_API, &api) != 0 ||
      ioctl(server, UFFDIO_REGISTER, &range) != 0) {
    puts("none");
  }
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  for (int i = 0; i < 1000; ++i) kept[i] = malloc((size_t)i * 100);
  if (strcmp(what, "names") == 0) {
    MapFileOfLongName();
    prctl(PR_SET_NAME, "\x1b]0;t\x07\xff\n\x9b");
    void* const memory =
        mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory, kPage, "hostile");
  } else if (strcmp(what, "changes") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, &Change, NULL) != 0) return 1;
  } else if (strcmp(what, "mappings") == 0) {
    MapMany(kManyMappings, -1, NULL, 0);
  } else if (strcmp(what, "modules") == 0) {
    // Maps the head of this program many times, from a file whose contents differ from it.
    char path[] = "/tmp/hostile.XXXXXX";
    const int file = mkstemp(path);
    if (file < 0 || ftruncate(file, kPage) != 0) return 1;
    char head[kPage];
    const int self = open("/proc/self/exe", O_RDONLY);
    if (self < 0 || read(self, head, sizeof(head)) != (ssize_t)sizeof(head)) return 1;
    MapMany(kManyModules, file, head, sizeof(head));
    unlink(path);
  } else if (strcmp(what, "served") == 0) {
    MapServed();
  } else {
    return 2;
  }
  puts("ready");
  fflush(stdout);
  getchar();
  return 0;
}
