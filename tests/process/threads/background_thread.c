// SPDX-License-Identifier: BSD-3-Clause
// Tests the library's background thread from outside.
//
//   background_thread started     with TCMALLOC_BACKGROUND=1: there is exactly one, which no signal
//                                 interrupts, and none in a forked child
//   background_thread never       with TCMALLOC_BACKGROUND=0, or where nothing is ever released
//   background_thread auto        by default: from the first pthread_create on, until the program
//                                 has one thread again; in a forked child when that creates one
//   background_thread limit       there is none where the process may have no more threads
//   background_thread sandbox     it works under a filter that kills for nearly every system call
//   background_thread trapped     its system calls are answered by the program's handler for SIGSYS
//   background_thread forbidden   it works although the program's first thread at once forbids the
//                                 whole process to create threads and to map memory
//   background_thread main_exits  main ends by pthread_exit, and threads that never allocated end
//                                 later; a program's thread runs the exit handlers
//   background_thread cancelled   it ends although the thread that stops it is cancelled meanwhile
//   background_thread asleep      once there is nothing to do, it sleeps until there is
//   background_thread busy        fork and exit while it works
//   background_thread own         a thread of the program's does its work, and can be cancelled
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "../check.h"
#include "../refuse_calls.h"

extern void tcmalloc_process_background_actions(void) __attribute__((weak));
extern void tcmalloc_set_memory_release_rate(double) __attribute__((weak));
extern int tcmalloc_get_numeric_property(const char*, size_t*) __attribute__((weak));

enum { kMiB = 1 << 20 };

enum { kSleepers = 3 };
static pthread_t sleepers[kSleepers];
static _Atomic long sleeper_ids[kSleepers];
static pthread_barrier_t barrier;

// Returns the number of the thread that is neither the calling one nor a sleeper; 0 if there is
// none. `*threads` is the number of threads.
static long Stranger(int* threads) {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  long stranger = 0;
  *threads = 0;
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    const long thread = strtol(entry->d_name, NULL, 10);
    int known = thread == syscall(SYS_gettid);
    for (int i = 0; i < kSleepers; ++i) known |= thread == sleeper_ids[i];
    if (!known) stranger = thread;
    ++*threads;
  }
  CHECK(closedir(tasks) == 0);
  return stranger;
}

// True if the process has this many threads, without the library's thread.
static int IsAbsent(int expected_threads) {
  int threads = 0;
  return Stranger(&threads) == 0 && threads == expected_threads;
}

// The text after `field`, which ends in a colon, in the thread's status file.
static void Status(long thread, const char* field, char* value, size_t size) {
  char name[64];
  snprintf(name, sizeof(name), "/proc/self/task/%ld/status", thread);
  FILE* file = fopen(name, "re");
  CHECK(file != NULL);
  char line[512];
  value[0] = '\0';
  while (fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) {
      snprintf(value, size, "%s", line + strlen(field) + 1);
      value[strcspn(value, "\n")] = '\0';
    }
  }
  CHECK(fclose(file) == 0);
  CHECK(value[0] != '\0');
}

static int IsBlocked(const char* mask, int number) {
  return (int)(strtoull(mask, NULL, 16) >> (number - 1) & 1);
}

static void CheckAllSignalsBlocked(long thread) {
  char text[64];
  // While the C library starts a thread, it blocks all signals. Waits until the thread has reached
  // its first pause.
  do {
    Status(thread, "State:", text, sizeof(text));
  } while (text[0] != 'S' && sched_yield() == 0);
  Status(thread, "SigBlk:", text, sizeof(text));
  for (int number = 1; number <= 64; ++number) {
    // These cannot be blocked, or belong to the C library.
    if (number == SIGKILL || number == SIGSTOP || (number > 31 && number < SIGRTMIN)) continue;
    if (number == SIGSYS) {
      // SIGSYS is blocked as in the program's thread: the signal of a filter must reach its
      // handler.
      CHECK(!IsBlocked(text, number));
    } else if (!IsBlocked(text, number)) {
      dprintf(STDERR_FILENO, "signal %d is not blocked: %s\n", number, text);
      CHECK(0);
    }
  }
}

static void CheckNoSignalsBlocked(void) {
  sigset_t blocked;
  CHECK(pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0);
  CHECK(sigisemptyset(&blocked));
}

static void Work(void) {
  Exercise(1);
  char* objects[32];
  for (int i = 0; i < 32; ++i) objects[i] = NewMarked(2 * kMiB, 1);
  for (int i = 0; i < 32; ++i) Free(objects[i]);
}

static void WaitFor(pid_t child) {
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) _exit(77);
  CHECK(status == 0);
}

static void Started(void) {
  CHECK(getenv("TCMALLOC_BACKGROUND") != NULL);
  int threads = 0;
  const long thread = Stranger(&threads);
  CHECK(thread != 0 && threads == 2);
  char name[64];
  Status(thread, "Name:", name, sizeof(name));
  CHECK(strcmp(name, "tcmalloc") == 0);
  CheckAllSignalsBlocked(thread);
  CheckNoSignalsBlocked();
  Work();
  const pid_t child = fork();
  if (child == 0) {
    CHECK(IsAbsent(1));
    Work();
    CHECK(IsAbsent(1));
    // The child's child does not get one either, but a program that is executed anew does.
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(IsAbsent(1) ? 0 : 1);
    WaitFor(grandchild);
    if (getenv("STARTED_ANEW") != NULL) _exit(0);
    CHECK(setenv("STARTED_ANEW", "1", 1) == 0);
    char self[PATH_MAX];
    CHECK(realpath("/proc/self/exe", self) != NULL);
    execl(self, self, "started", (char*)NULL);
    _exit(2);
  }
  WaitFor(child);
  CHECK(Stranger(&threads) == thread && threads == 2);
}

// Gets a cache, and sleeps until it may end.
static void* SleepInBarrier(void* number) {
  Free(Malloc(100));
  sleeper_ids[(intptr_t)number] = syscall(SYS_gettid);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

static void* Nothing(void* unused) {
  Exercise(7);
  return unused;
}

static void StartSleepers(void) {
  CHECK(pthread_barrier_init(&barrier, NULL, kSleepers + 1) == 0);
  for (intptr_t i = 0; i < kSleepers; ++i) {
    CHECK(pthread_create(&sleepers[i], NULL, SleepInBarrier, (void*)i) == 0);
  }
  pthread_barrier_wait(&barrier);
}

static void EndSleepers(void) {
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kSleepers; ++i) CHECK(pthread_join(sleepers[i], NULL) == 0);
  CHECK(pthread_barrier_destroy(&barrier) == 0);
}

static _Atomic long signalled_thread;
static void OnSignal(int number) {
  (void)number;
  signalled_thread = syscall(SYS_gettid);
}

static void CheckProcessSignals(long stranger) {
  struct sigaction action = {.sa_handler = OnSignal};
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (number == SIGKILL || number == SIGSTOP || (number > 31 && number < SIGRTMIN)) continue;
    CHECK(sigaction(number, &action, NULL) == 0);
    signalled_thread = 0;
    CHECK(kill(getpid(), number) == 0);
    while (signalled_thread == 0) sched_yield();
    CHECK(signalled_thread != stranger);
  }
}

static void Auto(void) {
  CHECK(getenv("TCMALLOC_BACKGROUND") == NULL);
  CHECK(IsAbsent(1));
  Work();
  CHECK(IsAbsent(1));
  StartSleepers();
  int threads = 0;
  const long stranger = Stranger(&threads);
  CHECK(stranger != 0 && threads == kSleepers + 2);
  CheckAllSignalsBlocked(stranger);
  CheckNoSignalsBlocked();
  CheckProcessSignals(stranger);
  const pid_t child = fork();
  if (child == 0) {
    CHECK(IsAbsent(1));
    Work();
    CHECK(IsAbsent(1));
    // Now the child needs a background thread.
    for (int round = 0; round < 2; ++round) {
      StartSleepers();
      const long own = Stranger(&threads);
      CHECK(own != 0 && threads == kSleepers + 2);
      EndSleepers();
      AwaitOneThread();
    }
    _exit(0);
  }
  WaitFor(child);
  CHECK(Stranger(&threads) == stranger && threads == kSleepers + 2);
  EndSleepers();
  AwaitOneThread();
  Work();
  CHECK(IsAbsent(1));
  // Creates threads that end before their creator continues.
  for (int round = 0; round < 100; ++round) {
    const pid_t other = fork();
    if (other == 0) {
      CHECK(pthread_create(&sleepers[0], NULL, Nothing, NULL) == 0);
      CHECK(pthread_join(sleepers[0], NULL) == 0);
      AwaitOneThread();
      _exit(0);
    }
    WaitFor(other);
  }
}

static void Never(void) {
  CHECK(getenv("TCMALLOC_BACKGROUND") != NULL || getenv("TCMALLOC_RELEASE_RATE") != NULL);
  for (int round = 0; round < 3; ++round) {
    StartSleepers();
    CHECK(IsAbsent(kSleepers + 1));
    Work();
    CHECK(IsAbsent(kSleepers + 1));
    EndSleepers();
  }
}

static void Limit(void) {
  if (geteuid() != 0) {
    dprintf(STDERR_FILENO,
            "SKIP: only a process of root's can become one of a user without others\n");
    exit(77);
  }
  // The limit counts the threads of a user: takes a user that has none.
  const uid_t user = 1000000000u + (uid_t)getpid();
  // Allows the calling thread and two more.
  const struct rlimit limit = {3, 3};
  CHECK(setrlimit(RLIMIT_NPROC, &limit) == 0);
  CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
  CHECK(setresuid(user, user, user) == 0);
  CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
  pthread_t first;
  pthread_t second;
  // With the first thread there is room for the background thread. There is no room for the second
  // thread, and pthread_create fails as usual.
  CHECK(pthread_create(&first, NULL, SleepInBarrier, (void*)0) == 0);
  pthread_barrier_wait(&barrier);
  CHECK(pthread_create(&second, NULL, Nothing, NULL) == EAGAIN);
  pthread_barrier_wait(&barrier);
  CHECK(pthread_join(first, NULL) == 0);
  // In a child with room for one thread only, the program gets it.
  const pid_t child = fork();
  if (child == 0) {
    CHECK(pthread_create(&first, NULL, SleepInBarrier, (void*)0) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(IsAbsent(2));
    Work();
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(first, NULL) == 0);
    _exit(0);
  }
  WaitFor(child);
}

// Bytes of the heap that have been returned to the OS. Makes no system call.
static size_t Released(void) {
  size_t bytes = 0;
  CHECK(tcmalloc_get_numeric_property("tcmalloc.pageheap_unmapped_bytes", &bytes) == 1);
  return bytes;
}

// Waits until the library has released that many bytes; the calling thread does not allocate.
static void AwaitReleased(size_t bytes) {
  for (int i = 0; Released() < bytes; ++i) {
    CHECK(i < 6000);
    SleepMs(10);
  }
}

// Forbids all system calls but those of Linux's own strict mode, of waiting, and of backing and
// releasing memory in place. Everything else ends the process.
static void EnterStrictSandbox(void) {
  RefuseCalls(
      "read=allow write=allow exit=allow exit_group=allow futex=allow madvise=allow "
      "membarrier=allow pread64=allow rt_sigreturn=allow nanosleep=allow clock_nanosleep=allow "
      "*=kill");
}

enum { kObjects = 100 };
static char* objects[kObjects];

// Allocates 200 MiB.
static void Fill(void) {
  for (int i = 0; i < kObjects; ++i) objects[i] = NewMarked(2 * kMiB, 1);
}
static void FreeObjects(void) {
  for (int i = 0; i < kObjects; ++i) Free(objects[i]);
}

static void Sandbox(void) {
  Fill();
  // The last pthread_create of these returned a moment ago.
  StartSleepers();
  EnterStrictSandbox();
  const size_t before = Released();
  FreeObjects();
  // This release comes after those of the frees.
  AwaitReleased(before + 190 * kMiB);
  _exit(0);
}

static atomic_int filter_installed;

static void* Forbid(void* unused) {
  RefuseCalls("clone=kill clone3=kill mmap=kill mprotect=kill prctl=kill");
  atomic_store(&filter_installed, 1);
  return unused;
}

static void Forbidden(void) {
  for (int round = 0; round < 100; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, Forbid, NULL) == 0);
      while (atomic_load(&filter_installed) == 0) sched_yield();
      _exit(0);
    }
    WaitFor(child);
  }
}

static void* SleepForAWhile(void* unused) {
  SleepMs(200);
  return unused;
}

static void MainExits(void) {
  CHECK(atexit(CheckNoSignalsBlocked) == 0);
  pthread_t thread;
  for (int i = 0; i < 5; ++i) CHECK(pthread_create(&thread, NULL, SleepForAWhile, NULL) == 0);
  int threads = 0;
  CHECK(Stranger(&threads) != 0);
  pthread_exit(NULL);
}

static _Atomic long trapped_thread;
static void OnTrap(int number) {
  (void)number;
  const long thread = syscall(SYS_gettid);
  if (thread != getpid()) trapped_thread = thread;
}

static void Trapped(void) {
  int threads;
  // If the program's thread blocks the signal, the library's thread does, too.
  const pid_t child = fork();
  if (child == 0) {
    sigset_t blocked;
    CHECK(sigemptyset(&blocked) == 0 && sigaddset(&blocked, SIGSYS) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
    StartSleepers();
    char mask[64];
    Status(Stranger(&threads), "SigBlk:", mask, sizeof(mask));
    CHECK(IsBlocked(mask, SIGSYS));
    _exit(0);
  }
  WaitFor(child);
  struct sigaction action = {.sa_handler = OnTrap};
  CHECK(sigaction(SIGSYS, &action, NULL) == 0);
  Fill();
  StartSleepers();
  const long stranger = Stranger(&threads);
  CHECK(stranger != 0);
  RefuseCalls("madvise=trap");
  FreeObjects();
  for (int i = 0; i < 600 && trapped_thread == 0; ++i) SleepMs(100);
  CHECK(trapped_thread == stranger);
  CHECK(Stranger(&threads) == stranger);
  _exit(0);
}

static void* CancelItself(void* unused) {
  Free(Malloc(100));
  pthread_barrier_wait(&barrier);
  CHECK(pthread_cancel(pthread_self()) == 0);
  return unused;
}

// Each thread stops the background thread when it ends, with a cancellation pending.
static void Cancelled(void) {
  CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, CancelItself, NULL) == 0);
  int threads;
  CHECK(Stranger(&threads) != 0);
  pthread_barrier_wait(&barrier);
  CHECK(pthread_join(thread, NULL) == 0);
  AwaitOneThread();
  CHECK(pthread_barrier_destroy(&barrier) == 0);
  StartSleepers();
  CHECK(Stranger(&threads) != 0 && threads == kSleepers + 2);
  EndSleepers();
  AwaitOneThread();
}

static long Wakeups(long thread) {
  char text[64];
  Status(thread, "voluntary_ctxt_switches:", text, sizeof(text));
  return strtol(text, NULL, 10);
}

// Whether the thread waits for a futex without a time limit. Allocates nothing: a cache in use
// keeps the thread awake.
static int SleepsForGood(long thread) {
  char text[256];
  snprintf(text, sizeof(text), "/proc/self/task/%ld/syscall", thread);
  const int fd = open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    dprintf(STDERR_FILENO, "SKIP: the kernel does not show system calls of threads\n");
    _exit(77);
  }
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  CHECK(length >= 0 && close(fd) == 0);
  text[length] = '\0';
  long call = -1;
  unsigned long limit = 1;
  const int fields = sscanf(text, "%ld %*x %*x %*x %lx", &call, &limit);
  return fields == 2 && call == SYS_futex && limit == 0;
}

static void AwaitSleepForGood(long thread) {
  for (int i = 0; !SleepsForGood(thread); ++i) {
    CHECK(i < 6000);
    SleepMs(10);
  }
}

static void Asleep(void) {
  StartSleepers();
  int threads;
  const long stranger = Stranger(&threads);
  CHECK(stranger != 0);
  AwaitSleepForGood(stranger);
  const long before = Wakeups(stranger);
  // Frees more than the release policy ignores, but too little for a release that is due at once.
  Free(NewMarked(20 * kMiB, 1));
  while (Wakeups(stranger) == before) SleepMs(100);
  AwaitSleepForGood(stranger);
  _exit(0);
}

static _Atomic int stop_churning;
static void* Churn(void* unused) {
  while (!stop_churning) {
    Free(NewMarked(60 * kMiB, 1));
    SleepMs(1);
  }
  return unused;
}

static void Busy(void) {
  tcmalloc_set_memory_release_rate(1000);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, Churn, NULL) == 0);
  for (int children = 0; children < 200; ++children) {
    const pid_t child = fork();
    if (child == 0) {
      Exercise(3);
      if (children % 8 == 0) {
        // The child has a background thread, which is in its first pass when the process ends.
        CHECK(pthread_create(&thread, NULL, Nothing, NULL) == 0);
        Free(NewMarked(20 * kMiB, 1));
        if (children % 16 == 0) CHECK(pthread_join(thread, NULL) == 0);
        exit(0);
      }
      _exit(0);
    }
    WaitFor(child);
  }
  stop_churning = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  AwaitOneThread();
}

static void* Actions(void* unused) {
  tcmalloc_process_background_actions();
  return unused;
}

static void Own(void) {
  CHECK(getenv("TCMALLOC_BACKGROUND") == NULL);
  // Keeps only what the program needed in the last milliseconds.
  tcmalloc_set_memory_release_rate(1000);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, Actions, NULL) == 0);
  Fill();
  const size_t before = Released();
  FreeObjects();
  // From here on no call of this thread releases anything.
  AwaitReleased(before + 190 * kMiB);
  CHECK(pthread_cancel(thread) == 0);
  void* result;
  CHECK(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED);
  Work();
}

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(tcmalloc_process_background_actions != NULL && tcmalloc_set_memory_release_rate != NULL);
  CHECK(argc == 2);
  const struct {
    const char* name;
    void (*run)(void);
  } variants[] = {
      {"started", Started},     {"never", Never},
      {"auto", Auto},           {"limit", Limit},
      {"sandbox", Sandbox},     {"trapped", Trapped},
      {"forbidden", Forbidden}, {"main_exits", MainExits},
      {"cancelled", Cancelled}, {"asleep", Asleep},
      {"busy", Busy},           {"own", Own},
  };
  for (size_t i = 0; i < sizeof(variants) / sizeof(*variants); ++i) {
    if (strcmp(argv[1], variants[i].name) == 0) variants[i].run();
  }
  return 0;
}
