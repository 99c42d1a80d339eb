// SPDX-License-Identifier: BSD-3-Clause
// A program that uses everything the library has, in a sandbox: see system_calls_test.py.
//
// usage: surroundings [STEP...]   the names of kSteps; without one all but `crowded`
//   REFUSE_LATER=RULES  the sandbox (refuse_calls.h) comes after the first allocations and threads
// With refuse.c the sandbox exists before the program starts. For each step the program prints
// "STEP: done", or "STEP: refused: REASON" if the library says that it could not do it. A step that
// the library does wrongly ends the program with status 1.
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "../../../include/tcmalloc/leak_checker.h"
#include "../../../include/tcmalloc/tcmalloc.h"
#include "../check.h"
#include "../refuse_calls.h"

#pragma weak tcmalloc_check_leaks
#pragma weak tcmalloc_leaks_free
#pragma weak tcmalloc_leaks_get_info
#pragma weak tcmalloc_flush_thread_caches
#pragma weak tcmalloc_flush_central_caches
#pragma weak tcmalloc_release_free_memory
#pragma weak tcmalloc_set_memory_limit
#pragma weak tcmalloc_set_large_allocation_threshold
#pragma weak tcmalloc_set_profile_sampling_interval
#pragma weak tcmalloc_profile_snapshot
#pragma weak tcmalloc_profile_write
#pragma weak tcmalloc_profile_free
#pragma weak tcmalloc_pressure_fd
#pragma weak tcmalloc_handle_pressure
extern void HeapProfilerStart(const char* prefix) __attribute__((weak));
extern void HeapProfilerDump(const char* reason) __attribute__((weak));
extern void HeapProfilerStop(void) __attribute__((weak));

enum { kHeld = 2000, kLeaked = 50, kLeakedBytes = 3000 };

// Allocates objects, writes to them, frees every second one, then all.
static void Churn(size_t size, int count) {
  static _Thread_local char* held[kHeld];
  for (int i = 0; i < count; ++i) {
    held[i] = (char*)Malloc(size);
    CHECK(held[i] != NULL);
    for (size_t at = 0; at < size; at += 4096) held[i][at] = 1;
  }
  for (int i = 0; i < count; i += 2) Free(held[i]);
  for (int i = 1; i < count; i += 2) Free(held[i]);
  // The leak check looks here.
  memset(held, 0, sizeof(held));
}

static const char* Allocate(void) {
  Exercise(7);
  for (size_t size = 1; size <= (size_t)4 << 20; size += size / 2 + 1) {
    Churn(size, size < 4096 ? 100 : 2);
    void* object = NULL;
    CHECK(posix_memalign(&object, 1024, size) == 0);
    Free(object);
  }
  // Uses many spans of one class; the library pre-faults those that the program touches.
  char** const many = (char**)Malloc(15000 * sizeof(char*));
  for (int i = 0; i < 15000; ++i) many[i] = NewMarked(100, (unsigned)i);
  for (int i = 0; i < 15000; ++i) FreeMarked(many[i], 100, (unsigned)i);
  Free(many);
  CHECK(Malloc(SIZE_MAX / 2) == NULL);
  // The object is moved; if the OS refuses that, it is copied.
  const size_t bytes = (size_t)24 << 20;
  char* large = (char*)Malloc(bytes);
  char* const after = (char*)Malloc(bytes);
  CHECK(large != NULL && after != NULL);
  for (size_t at = 0; at < bytes; at += 4096) large[at] = 5;
  large = (char*)Realloc(large, 3 * bytes);
  CHECK(large != NULL && large[bytes / 2] == 5);
  Free(large);
  Free(after);
  return NULL;
}

static pthread_barrier_t barrier;

static void* Sleeper(void* argument) {
  Churn(64, 1000);
  pthread_barrier_wait(&barrier);
  // Meanwhile its cache is taken.
  pthread_barrier_wait(&barrier);
  Churn(64, 1000);
  Exercise(3);
  return argument;
}

enum { kThreads = 3 };

static const char* Threads(void) {
  pthread_t threads[kThreads];
  CHECK(pthread_barrier_init(&barrier, NULL, kThreads + 1) == 0);
  for (int i = 0; i < kThreads; ++i) {
    const int error = pthread_create(&threads[i], NULL, &Sleeper, NULL);
    // The allocator did not fail, but the C library, which needs more calls.
    if (error != 0) _exit(3);
  }
  pthread_barrier_wait(&barrier);
  tcmalloc_flush_thread_caches();
  tcmalloc_flush_central_caches();
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kThreads; ++i) JoinThread(threads[i]);
  return NULL;
}

static const char* Fork(void) {
  const pid_t child = fork();
  if (child < 0) _exit(3);
  if (child == 0) {
    Exercise(4);
    malloc_trim(0);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) _exit(3);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return NULL;
}

static const char* Release(void) {
  Churn(5000, 300);
  malloc_trim(0);
  Churn(30000, 200);
  tcmalloc_release_free_memory();
  tcmalloc_set_memory_limit(1, (size_t)4 << 20);
  Churn(30000, 200);
  tcmalloc_set_memory_limit(1, 0);
  return NULL;
}

static const char* Statistics(void) {
  malloc_stats();
  CHECK(mallinfo2().arena > 0);
  return NULL;
}

// Uses an object of the C library's own malloc.
static const char* Foreign(void) {
#ifndef LINKED_STATICALLY
  void* const handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* (*const own)(size_t) =
      handle == NULL ? NULL : (void* (*)(size_t))dlsym(handle, "__libc_malloc");
  if (own != NULL) Free(own(1000));
#endif
  return NULL;
}

static const char* Profile(void) {
  if (tcmalloc_profile_snapshot == NULL) return NULL;
  tcmalloc_set_profile_sampling_interval(10000);
  Churn(1000, 500);
  char* const kept = NewMarked((size_t)1 << 20, 9);
  tcmalloc_profile* const profile = tcmalloc_profile_snapshot(0);
  const char* refused = NULL;
  if (profile == NULL) {
    refused = "no profile";
  } else {
    const char* const path = getenv("PROFILE_TO");
    const int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file >= 0 && !tcmalloc_profile_write(profile, 0, file)) refused = "not written";
    if (file >= 0) close(file);
    tcmalloc_profile_free(profile);
  }
  tcmalloc_set_profile_sampling_interval(0);
  Free(kept);
  return refused;
}

static const char* HeapProfile(void) {
  if (HeapProfilerStart == NULL) return NULL;
  const char* const prefix = getenv("HEAP_PROFILE_TO");
  if (prefix == NULL) return NULL;
  HeapProfilerStart(prefix);
  Churn(1000, 100);
  HeapProfilerDump("step");
  HeapProfilerStop();
  return NULL;
}

static void* volatile hidden;

static const char* Leaks(void) {
  if (tcmalloc_check_leaks == NULL) return NULL;
  for (int i = 0; i < kLeaked; ++i) hidden = NewMarked(kLeakedBytes, 1);
  hidden = NULL;
  tcmalloc_leaks* const leaks = tcmalloc_check_leaks(0);
  tcmalloc_leaks_info info;
  tcmalloc_leaks_get_info(leaks, &info);
  tcmalloc_leaks_free(leaks);
  static char reason[100];
  if (info.outcome == TCMALLOC_LEAKS_DONE || info.outcome == TCMALLOC_LEAKS_NOT_STOPPED) {
    // Words that are left on stacks may point to some of the leaked objects.
    if (info.objects < kLeaked / 2) {
      dprintf(STDERR_FILENO, "outcome %d, error %d: %llu objects leaked, not %d\n", info.outcome,
              info.error, info.objects, kLeaked);
      _exit(1);
    }
    if (info.outcome == TCMALLOC_LEAKS_DONE) return NULL;
  }
  snprintf(reason, sizeof(reason), "outcome %d: %s", info.outcome, strerror(info.error));
  return reason;
}

static const char* Pressure(void) {
  if (tcmalloc_pressure_fd == NULL) return NULL;
  const int descriptor = tcmalloc_pressure_fd();
  if (descriptor < 0) return strerror(errno);
  tcmalloc_handle_pressure();
  return NULL;
}

static const char* LargeReport(void) {
  if (tcmalloc_set_large_allocation_threshold == NULL) return NULL;
  tcmalloc_set_large_allocation_threshold((size_t)4 << 20);
  Free(NewMarked((size_t)5 << 20, 1));
  tcmalloc_set_large_allocation_threshold(0);
  return NULL;
}

// The process has as many mappings as it may have (vm.max_map_count).
static const char* Crowded(void) {
  enum { kObjects = 4000, kSize = 20000, kMostMappings = 1000000 };
  char** const objects = (char**)Malloc(kObjects * sizeof(char*));
  for (unsigned i = 0; i < kObjects; ++i) objects[i] = NewMarked(kSize, i);
  void** const mapped = (void**)mmap(NULL, kMostMappings * sizeof(void*), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(mapped != MAP_FAILED);
  size_t count = 0;
  // Every second page differs, so that the kernel does not join them.
  for (; count < kMostMappings; ++count) {
    mapped[count] = mmap(NULL, 4096, count % 2 == 0 ? PROT_NONE : PROT_READ,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped[count] == MAP_FAILED) break;
  }
  CHECK(errno == ENOMEM);
  errno = 0;
  CHECK(Malloc((size_t)1 << 30) == NULL && errno == ENOMEM);
  CHECK(Realloc(objects[0], (size_t)1 << 30) == NULL);
  for (unsigned i = 0; i < kObjects; i += 2) FreeMarked(objects[i], kSize, i);
  malloc_trim(0);
  for (unsigned i = 0; i < kObjects; i += 2) objects[i] = NewMarked(kSize, i);
  for (int i = 0; i < 5; ++i) Exercise(5);
  malloc_stats();
  for (size_t i = 0; i < count; ++i) CHECK(munmap(mapped[i], 4096) == 0);
  for (unsigned i = 0; i < kObjects; ++i) FreeMarked(objects[i], kSize, i);
  Free(objects);
  char* const large = NewMarked((size_t)64 << 20, 4);
  FreeMarked(large, (size_t)64 << 20, 4);
  return NULL;
}

static const struct {
  const char* name;
  const char* (*run)(void);
} kSteps[] = {{"allocate", &Allocate}, {"threads", &Threads},          {"fork", &Fork},
              {"release", &Release},   {"statistics", &Statistics},    {"foreign", &Foreign},
              {"profile", &Profile},   {"heap-profile", &HeapProfile}, {"leaks", &Leaks},
              {"pressure", &Pressure}, {"large-report", &LargeReport}, {"crowded", &Crowded}};

// Makes the call fail with EPERM, like a sandbox that answers instead of the kernel.
static void OnTrap(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ucontext_t* const interrupted = (ucontext_t*)context;
#if defined(__x86_64__)
  interrupted->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__i386__)
  interrupted->uc_mcontext.gregs[REG_EAX] = -EPERM;
#elif defined(__aarch64__)
  interrupted->uc_mcontext.regs[0] = (unsigned long long)-EPERM;
#else
  _exit(77);
#endif
}

static void Enter(const char* rules) {
  struct sigaction action = {.sa_sigaction = &OnTrap, .sa_flags = SA_SIGINFO};
  if (strstr(rules, "=trap") != NULL) sigaction(SIGSYS, &action, NULL);
  RefuseCalls(rules);
}

static void* Nothing(void* argument) { return argument; }

int main(int argc, char** argv) {
#ifndef LINKED_STATICALLY
  RequireLibraryUnderTest();
#endif
  const char* const rules = getenv("REFUSE_LATER");
  if (rules != NULL) {
    Exercise(1);
    JoinThread(StartThread(&Nothing, NULL));
    Enter(rules);
  }
  for (unsigned i = 0; i < sizeof(kSteps) / sizeof(kSteps[0]); ++i) {
    int wanted = argc == 1 && kSteps[i].run != &Crowded;
    for (int a = 1; a < argc; ++a) wanted |= strcmp(argv[a], kSteps[i].name) == 0;
    if (!wanted) continue;
    const char* const refused = kSteps[i].run();
    char line[200];
    const int length = refused == NULL ? snprintf(line, sizeof(line), "%s: done\n", kSteps[i].name)
                                       : snprintf(line, sizeof(line), "%s: refused: %s\n",
                                                  kSteps[i].name, refused);
    // If write is refused, the exit status is enough.
    if (write(STDOUT_FILENO, line, (size_t)length) < 0) continue;
  }
  return 0;
}
