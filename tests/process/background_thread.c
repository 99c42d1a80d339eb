// SPDX-License-Identifier: BSD-3-Clause
//
// The library's thread, seen from outside.
//
//   background_thread started   with TCMALLOC_BACKGROUND=1: there is exactly one, named tcmalloc,
//                               which no signal ever interrupts, and none in a forked child
//   background_thread none      without: none, whatever the program does
//   background_thread own       a thread of the program's does its work, and can be cancelled
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

extern void tcmalloc_process_background_actions(void) __attribute__((weak));
extern void tcmalloc_set_memory_release_rate(double) __attribute__((weak));

enum { kMiB = 1 << 20 };

// The process's threads; the last one that is not the calling one is left in *other.
static int Threads(long* other) {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  int threads = 0;
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    const long thread = strtol(entry->d_name, NULL, 10);
    if (thread != syscall(SYS_gettid)) *other = thread;
    ++threads;
  }
  CHECK(closedir(tasks) == 0);
  return threads;
}

// What the thread's status file says behind `field`, which ends in a colon.
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

static void CheckName(long thread) {
  char name[64];
  Status(thread, "Name:", name, sizeof(name));
  CHECK(strcmp(name, "tcmalloc") == 0);
}

static void CheckAllSignalsBlocked(long thread) {
  char text[64];
  // While the C library starts a thread it blocks all signals: it is to have come to its first
  // pause.
  do {
    Status(thread, "State:", text, sizeof(text));
  } while (text[0] != 'S' && sched_yield() == 0);
  Status(thread, "SigBlk:", text, sizeof(text));
  const unsigned long long blocked = strtoull(text, NULL, 16);
  for (int number = 1; number <= 64; ++number) {
    // Those cannot be blocked, or are the C library's.
    if (number == SIGKILL || number == SIGSTOP || (number > 31 && number < SIGRTMIN)) continue;
    if ((blocked >> (number - 1) & 1) == 0) {
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

static void Sleep(long ms) {
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

static void Work(void) {
  Exercise(1);
  char* objects[32];
  for (int i = 0; i < 32; ++i) objects[i] = NewMarked(2 * kMiB, 1);
  for (int i = 0; i < 32; ++i) Free(objects[i]);
}

static void Started(void) {
  CHECK(getenv("TCMALLOC_BACKGROUND") != NULL);
  long thread = 0;
  CHECK(Threads(&thread) == 2);
  CheckName(thread);
  CheckAllSignalsBlocked(thread);
  CheckNoSignalsBlocked();
  Work();
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    long none = 0;
    CHECK(Threads(&none) == 1);
    Work();
    CHECK(Threads(&none) == 1);
    // Nor does the child's child get one, nor does it stay away from a program that is started
    // anew.
    const pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (grandchild == 0) _exit(Threads(&none) == 1 ? 0 : 1);
    int status;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    if (getenv("STARTED_ANEW") != NULL) _exit(0);
    CHECK(setenv("STARTED_ANEW", "1", 1) == 0);
    char self[PATH_MAX];
    CHECK(realpath("/proc/self/exe", self) != NULL);
    execl(self, self, "started", (char*)NULL);
    _exit(2);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  long same = 0;
  CHECK(Threads(&same) == 2 && same == thread);
}

static void None(void) {
  CHECK(getenv("TCMALLOC_BACKGROUND") == NULL);
  long none = 0;
  CHECK(Threads(&none) == 1);
  Work();
  CHECK(Threads(&none) == 1);
}

static void* Actions(void* unused) {
  tcmalloc_process_background_actions();
  return unused;
}

static void Own(void) {
  CHECK(getenv("TCMALLOC_BACKGROUND") == NULL);
  // What the last milliseconds needed is kept, no more.
  tcmalloc_set_memory_release_rate(1000);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, Actions, NULL) == 0);
  const size_t before = ResidentBytes();
  char* object = NewMarked(200 * kMiB, 1);
  CHECK(ResidentBytes() >= before + 200 * kMiB);
  Free(object);
  // From here on no call of this thread's gives anything back.
  size_t after = SIZE_MAX;
  for (int i = 0; i < 600 && after > before + 10 * kMiB; ++i) {
    Sleep(100);
    after = ResidentBytes();
  }
  CHECK(after <= before + 10 * kMiB);
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
  if (strcmp(argv[1], "started") == 0) Started();
  if (strcmp(argv[1], "none") == 0) None();
  if (strcmp(argv[1], "own") == 0) Own();
  return 0;
}
