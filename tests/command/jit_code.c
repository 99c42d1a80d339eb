// SPDX-License-Identifier: BSD-3-Clause
// A program that compiles functions at run time: they call malloc, and /tmp/perf-PID.map has their
// names. Says "ready" and waits for the end of its input. jit_test.py knows the names.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void* (*Compiled)(size_t bytes, void* (*allocate)(size_t));

// A function with a frame pointer that returns allocate(bytes).
#if defined(__x86_64__)
static const uint8_t kCode[] = {
    0x55,              // push %rbp
    0x48, 0x89, 0xe5,  // mov %rsp, %rbp
    0xff, 0xd6,        // call *%rsi
    0x5d,              // pop %rbp
    0xc3,              // ret
};
#elif defined(__aarch64__)
static const uint32_t kCode[] = {
    0xa9bf7bfd,  // stp x29, x30, [sp, #-16]!
    0x910003fd,  // mov x29, sp
    0xd63f0020,  // blr x1
    0xa8c17bfd,  // ldp x29, x30, [sp], #16
    0xd65f03c0,  // ret
};
#else
#error "no code for this machine"
#endif

enum { kSize = 64, kObjects = 40, kBytes = 100000 };

static void* held[kObjects];

static Compiled Compile(char* memory, const char* name, FILE* map) {
  memcpy(memory, kCode, sizeof(kCode));
  __builtin___clear_cache(memory, memory + sizeof(kCode));
  // The map also names the code that was there before, and another function whose rest follows.
  fprintf(map, "%lx %x Replaced\n", (unsigned long)memory, kSize);
  fprintf(map, "0x%lx 0x%x %s\n", (unsigned long)memory, kSize / 2, name);
  Compiled function;
  memcpy(&function, &memory, sizeof(function));
  return function;
}

__attribute__((noinline)) static void Leak(Compiled function) {
  for (int i = 0; i < kObjects; ++i) {
    uintptr_t* const object = function(kBytes, &malloc);
    object[0] = (uintptr_t)i;
  }
}

int main(void) {
  char* const memory =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  char path[64];
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  FILE* const map = fopen(path, "w");
  if (map == NULL) return 1;
  const Compiled hold = Compile(memory, "Shop.hold(int)", map);
  const Compiled leak = Compile(memory + kSize, "Shop.leak \x1b[1m\xff", map);
  fclose(map);
  for (int i = 0; i < kObjects; ++i) held[i] = hold(kBytes, &malloc);
  Leak(leak);
  puts("ready");
  fflush(stdout);
  getchar();
  return 0;
}
