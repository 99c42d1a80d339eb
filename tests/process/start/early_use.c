// SPDX-License-Identifier: BSD-3-Clause
// Uses the allocator first before main: from the resolver of an IFUNC symbol, which runs before
// thread-local storage has its initial values, from the program's preinit array, which runs before
// every constructor of every library, and from the constructor of early_library.c, which ctest
// preloads before or after the allocator, or finds as a dependency of this program.
#define _GNU_SOURCE
#include "../check.h"

static char* in_resolver;
static char* before_all_constructors;

static int One(void) { return 1; }
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
static int (*Resolve(void))(void) {
  Exercise(3);
  in_resolver = NewMarked(5000, 0x25);
  return &One;
}
__attribute__((ifunc("Resolve"))) int OneByResolver(void);
#else
static int OneByResolver(void) { return One(); }
#endif

static void Preinit(int argc, char** argv, char** environment) {
  Exercise(1);
  before_all_constructors = NewMarked(5000, 0x24);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**,
                                                                              char**) = Preinit;

int main(void) {
  RequireLibraryUnderTest();
  int* runs = (int*)dlsym(RTLD_DEFAULT, "early_library_runs");
  CHECK(runs != NULL && *runs == 1);
  char** early_object = (char**)dlsym(RTLD_DEFAULT, "early_object");
  char** late_object = (char**)dlsym(RTLD_DEFAULT, "late_object");
  CHECK(early_object != NULL && late_object != NULL);
  FreeMarked(before_all_constructors, 5000, 0x24);
  CHECK(OneByResolver() == 1);
  if (in_resolver != NULL) FreeMarked(in_resolver, 5000, 0x25);
  FreeMarked(*early_object, 777, 0x22);
  *late_object = NewMarked(555, 0x23);
  Exercise(2);
  return 0;
}
