// SPDX-License-Identifier: BSD-3-Clause
//
// The program of sandbox_test.py: it starts, installs a seccomp filter that ends it for every
// system call that is not named, then uses all functions of the allocator that need no setting.
//
// usage: sandbox ANSWER THREADS CALL...
//   ANSWER   kill: the kernel ends the process; trap: the program names the call and exits with 3
//   THREADS  alone: the calling thread only; existing: with threads from before the filter; new:
//            threads start and end, and the process forks, after the filter
//   CALL     the names of the calls that are allowed
// Exit status 77 when the process may not install a filter.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../check.h"

// Prints the failure by one system call that the filter allows.
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#undef CHECK
#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      Say(__FILE__ ":" TEXT(__LINE__) ": " #condition " does not hold\n"); \
      _exit(1);                                                            \
    }                                                                      \
  } while (0)

static void Say(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(2);
}

struct Call {
  const char* name;
  long number;
};

// The second number of a name is what 32-bit machines use for it.
static const struct Call kCalls[] = {
#define CALL(name) {#name, SYS_##name}
#ifdef SYS_mmap2
    {"mmap", SYS_mmap2},
#endif
#ifdef SYS_clock_gettime64
    {"clock_gettime", SYS_clock_gettime64},
#endif
#ifdef SYS_clock_nanosleep_time64
    {"clock_nanosleep", SYS_clock_nanosleep_time64},
#endif
    CALL(brk),
    CALL(clock_gettime),
    CALL(clock_nanosleep),
    CALL(clone),
    CALL(clone3),
    CALL(exit),
    CALL(exit_group),
    CALL(futex),
    CALL(getcpu),
    CALL(getpid),
    CALL(gettid),
    CALL(madvise),
    CALL(membarrier),
    CALL(mincore),
    CALL(mmap),
    CALL(mprotect),
    CALL(mremap),
    CALL(munmap),
    CALL(nanosleep),
    CALL(rseq),
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(sched_yield),
    CALL(set_robust_list),
    CALL(wait4),
    CALL(write),
#undef CALL
};

enum { kMaxAllowed = 64 };

static void OnForbidden(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  char text[100];
  snprintf(text, sizeof(text), "system call %d is made, from %p\n", info->si_syscall,
           info->si_call_addr);
  Say(text);
  _exit(3);
}

// Every thread of the process may make the calls that are named, and no others.
static void EnterSandbox(int kill, char** names, int num_names) {
  struct sock_filter program[kMaxAllowed + 3];
  unsigned length = 0;
  program[length++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  long allowed[kMaxAllowed];
  unsigned num_allowed = 0;
  for (int i = 0; i < num_names; ++i) {
    unsigned found = 0;
    for (unsigned c = 0; c < sizeof(kCalls) / sizeof(kCalls[0]); ++c) {
      if (strcmp(kCalls[c].name, names[i]) != 0) continue;
      CHECK(num_allowed < kMaxAllowed);
      allowed[num_allowed++] = kCalls[c].number;
      ++found;
    }
    if (found == 0) dprintf(STDERR_FILENO, "%s is no call that this program knows\n", names[i]);
    CHECK(found > 0);
  }
  for (unsigned i = 0; i < num_allowed; ++i) {
    // Jumps to the last instruction.
    program[length++] = (struct sock_filter)BPF_JUMP(
        BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[i], (unsigned char)(num_allowed - i), 0);
  }
  program[length++] = (struct sock_filter)BPF_STMT(
      BPF_RET | BPF_K, kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_TRAP);
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {(unsigned short)length, program};
  struct sigaction action = {.sa_sigaction = &OnForbidden, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSYS, &action, NULL) == 0);
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) {
    dprintf(STDERR_FILENO, "SKIP: this process may not install a seccomp filter\n");
    _exit(77);
  }
}

static void* Find(const char* name) {
  void* const function = dlsym(RTLD_DEFAULT, name);
  CHECK(function != NULL);
  return function;
}

// The function is looked up before the filter is installed, which may forbid calls of the dynamic
// linker.
static size_t (*FlushAll)(void);
static size_t (*FlushCentral)(void);
static size_t (*ReleaseFree)(void);
static void (*SetLimit)(int, size_t);
enum { kHard, kSoft };
static int (*GetProperty)(const char*, size_t*);
static int (*AddNewHook)(void (*)(const void*, size_t));
static int (*RemoveNewHook)(void (*)(const void*, size_t));
static atomic_size_t hooked;
static void CountHook(const void* object, size_t size) {
  (void)object, (void)size;
  atomic_fetch_add(&hooked, 1);
}

static void FindFunctions(void) {
  FlushAll = (size_t (*)(void))Find("tcmalloc_flush_thread_caches");
  FlushCentral = (size_t (*)(void))Find("tcmalloc_flush_central_caches");
  ReleaseFree = (size_t (*)(void))Find("tcmalloc_release_free_memory");
  SetLimit = (void (*)(int, size_t))Find("tcmalloc_set_memory_limit");
  GetProperty = (int (*)(const char*, size_t*))Find("tcmalloc_get_numeric_property");
  AddNewHook = (int (*)(void (*)(const void*, size_t)))Find("MallocHook_AddNewHook");
  RemoveNewHook = (int (*)(void (*)(const void*, size_t)))Find("MallocHook_RemoveNewHook");
}

enum { kHeld = 4000 };

// Allocates `count` objects of `size` bytes, writes to each, frees every second one, then all.
static void Churn(size_t size, int count) {
  static _Thread_local char* held[kHeld];
  CHECK(count <= kHeld);
  for (int i = 0; i < count; ++i) {
    held[i] = (char*)Malloc(size);
    CHECK(held[i] != NULL);
    for (size_t at = 0; at < size; at += 4096) held[i][at] = 1;
  }
  for (int i = 0; i < count; i += 2) Free(held[i]);
  for (int i = 1; i < count; i += 2) Free(held[i]);
}

static void AllSizes(void) {
  for (size_t size = 1; size <= (size_t)8 << 20; size += size / 4 + 1) {
    Churn(size, size < 4096 ? 400 : size < ((size_t)256 << 10) ? 20 : 2);
    void* object = Calloc(1, size);
    CHECK(object != NULL);
    object = Realloc(object, size * 3);
    CHECK(object != NULL);
    CHECK(malloc_usable_size(object) >= size * 3);
    Free(object);
    CHECK(posix_memalign(&object, 1024, size) == 0);
    Free(object);
  }
  // The request is larger than the address space.
  CHECK(Malloc(SIZE_MAX / 2) == NULL);
}

// The heap grows by hugepages, and has several GB of address space.
static void GrowAndShrink(void) {
  char* small[300];
  for (int i = 0; i < 300; ++i) small[i] = NewMarked((size_t)200 << 10, 1);
  enum { kHuge = 6 };
  char* huge[kHuge];
  const size_t bytes = sizeof(void*) == 8 ? (size_t)1 << 30 : (size_t)64 << 20;
  for (int i = 0; i < kHuge; ++i) {
    huge[i] = (char*)Malloc(bytes + (size_t)i * 4096);
    CHECK(huge[i] != NULL);
    huge[i][bytes / 2] = 1;
  }
  // The object is moved, not copied.
  huge[0] = (char*)Realloc(huge[0], bytes * 2);
  CHECK(huge[0] != NULL && huge[0][bytes / 2] == 1);
  for (int i = 0; i < kHuge; ++i) Free(huge[i]);
  for (int i = 0; i < 300; ++i) Free(small[i]);
}

// Makes all requests that a program can make of the allocator.
static void AskForAll(void) {
  FlushAll();
  FlushCentral();
  Churn(100, 2000);
  CHECK(malloc_trim(0) >= 0);
  Churn(5000, 500);
  ReleaseFree();
  SetLimit(kSoft, (size_t)4 << 20);
  Churn(30000, 1000);
  SetLimit(kSoft, 0);
  size_t in_use = 0;
  CHECK(GetProperty("generic.current_allocated_bytes", &in_use) == 1 && in_use > 0);
  CHECK(AddNewHook(&CountHook) == 1);
  Churn(64, 100);
  CHECK(RemoveNewHook(&CountHook) == 1);
  CHECK(atomic_load(&hooked) >= 100);
  Churn(64, 100);
}

static void HitHardLimit(void) {
  SetLimit(kHard, (size_t)64 << 20);
  CHECK(Malloc((size_t)256 << 20) == NULL);
  SetLimit(kHard, 0);
}

enum { kThreads = 4, kRounds = 6, kPassed = 1000 };
static pthread_barrier_t barrier;
static int existing;
static char* passed[kThreads][kPassed];

static void* Work(void* argument) {
  const int self = (int)(intptr_t)argument;
  pthread_barrier_wait(&barrier);
  for (int round = 0; round < kRounds; ++round) {
    const size_t size = (size_t)32 << (round * 2);
    for (int i = 0; i < kPassed; ++i) passed[self][i] = NewMarked(size, (unsigned)self);
    pthread_barrier_wait(&barrier);
    // Frees objects of another thread.
    char** const mine = passed[(self + 1) % kThreads];
    for (int i = 0; i < kPassed; ++i) Free(mine[i]);
    pthread_barrier_wait(&barrier);
    // The other threads sleep, and this one needs the budget of their caches.
    if (round % kThreads == self) {
      for (int i = 0; i < 20; ++i) Churn(size, 1000);
      AskForAll();
    }
    pthread_barrier_wait(&barrier);
  }
  AllSizes();
  pthread_barrier_wait(&barrier);
  // The filter forbids the thread to end, so it waits until the process ends.
  if (existing) pthread_barrier_wait(&barrier);
  return NULL;
}

static void StartThreads(pthread_t* threads) {
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_create(&threads[i], NULL, &Work, (void*)(intptr_t)i) == 0);
  }
}

// Frees, but never allocates.
static void* FreeOnly(void* objects) {
  for (int i = 0; i < 100; ++i) Free(((void**)objects)[i]);
  return NULL;
}

static void ForkOnce(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    Exercise(3);
    AskForAll();
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) _exit(3);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc >= 4);
  FindFunctions();
  const int alone = strcmp(argv[2], "alone") == 0;
  existing = strcmp(argv[2], "existing") == 0;
  pthread_t threads[kThreads];
  CHECK(pthread_barrier_init(&barrier, NULL, kThreads + 1) == 0);
  if (existing) {
    StartThreads(threads);
    // Waits until all threads have started, which takes calls that are not allowed later.
    pthread_barrier_wait(&barrier);
  }
  EnterSandbox(strcmp(argv[1], "kill") == 0, argv + 3, argc - 3);
  if (!alone && !existing) StartThreads(threads);
  if (!alone) {
    // Waits as often as the threads do.
    for (int i = existing; i < 1 + 3 * kRounds + 1; ++i) pthread_barrier_wait(&barrier);
  }
  AllSizes();
  GrowAndShrink();
  AskForAll();
  // Other threads may need memory meanwhile, so only a program with one thread does this.
  if (alone) HitHardLimit();
  if (strcmp(argv[2], "new") == 0) {
    for (int i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
    void* objects[100];
    for (int i = 0; i < 100; ++i) objects[i] = Malloc(500);
    CHECK(pthread_create(&threads[0], NULL, &FreeOnly, objects) == 0);
    CHECK(pthread_join(threads[0], NULL) == 0);
    ForkOnce();
  }
  Exercise(4);
  _exit(0);
}
