// SPDX-License-Identifier: BSD-3-Clause
// Signal handlers of several threads fork, whatever the threads were doing in the allocator. Two
// handlers fork at once: one has interrupted a critical section of the allocator, and the other one
// waits for that section in fork. Meanwhile another thread
//
//   alone    does nothing
//   threads  creates threads that allocate and end
//   files    opens, writes, flushes and closes files, which takes the C library's list of files
//   spawn    starts programs with vfork and exec, posix_spawn, system and popen
//   mutex    forks, too, and a fork handler of the program takes a mutex
//
// Each handler forks and waits for its child. The program ends when each thread has forked
// kForksOfEach times. SIGALRM ends a process in which no fork returns for kSecondsWithoutFork.
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <iterator>

#include "../check.h"

namespace {

constexpr int kThreads = 3;
constexpr int kForksOfEach = 150;
constexpr unsigned kSecondsWithoutFork = 60;
// The time between two signals of a thread varies; this is the longest time.
constexpr int kMostNanosecondsBetween = 2000000;

struct Forker {
  timer_t timer;
  volatile sig_atomic_t forks;
  unsigned random;
};
thread_local Forker* self;

unsigned Random() {
  self->random = self->random * 1664525 + 1013904223;
  return self->random >> 8;
}

// See fork_in_handler.cc.
void SetTimer(Forker* forker) {
  const int apart = 1047299;  // a prime
  const itimerspec once = {{0, 0}, {0, 1 + forker->forks * apart % kMostNanosecondsBetween}};
  CHECK(timer_settime(forker->timer, 0, &once, nullptr) == 0);
}

void ForkOnce() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  AwaitChild(child);
}

// The handler makes only calls that are safe in a signal handler.
void ForkInHandler(int) {
  if (self == nullptr || self->forks >= kForksOfEach) return;
  alarm(kSecondsWithoutFork);
  ForkOnce();
  self->forks = self->forks + 1;
  SetTimer(self);
}

// Small and large objects, so that all locks of the heap are in use.
void* Work(void* seed) {
  Forker own = {};
  own.random = static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed));
  self = &own;
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGUSR1;
  event._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &own.timer) == 0);
  SetTimer(&own);
  struct {
    char* address;
    size_t size;
  } objects[64] = {};
  while (own.forks < kForksOfEach) {
    auto& object = objects[Random() % 64];
    if (object.address != nullptr) FreeMarked(object.address, object.size, object.size);
    object.size = 64 + (Random() % 3 != 0 ? Random() % 600000 : Random() % 3000);
    object.address = NewMarked(object.size, object.size);
    if (Random() % 1000 == 0) malloc_trim(0);
  }
  for (auto& object : objects) {
    if (object.address != nullptr) FreeMarked(object.address, object.size, object.size);
  }
  CHECK(timer_delete(own.timer) == 0);
  return nullptr;
}

// The work of the other thread, once.
void* Allocate(void*) {
  FreeMarked(NewMarked(200000, 1), 200000, 1);
  return nullptr;
}

void UseThread() { JoinThread(StartThread(Allocate, nullptr)); }

void UseFiles() {
  FILE* files[20];
  for (FILE*& file : files) {
    file = fopen("/dev/null", "we");
    CHECK(file != nullptr);
  }
  for (FILE* file : files) CHECK(fputs("text", file) >= 0);
  CHECK(fflush(nullptr) == 0);
  for (FILE* file : files) CHECK(fclose(file) == 0);
}

// The child of vfork runs on the parent's memory: it must leave the parent's heap as it was.
void Vfork(const char* program) {
  const pid_t child = vfork();
  if (child == 0) {
    execl(program, "true", nullptr);
    _exit(errno == ENOENT ? 0 : 1);
  }
  AwaitChild(child);
}

void StartPrograms() {
  Vfork("/bin/true");
  Vfork("/nonexistent/program");
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t child;
  CHECK(posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) == 0);
  AwaitChild(child);
  CHECK(system("true") == 0);
  FILE* const output = popen("echo text", "re");
  CHECK(output != nullptr);
  char* line = nullptr;
  size_t size = 0;
  CHECK(getline(&line, &size, output) == 5);
  free(line);
  CHECK(pclose(output) == 0);
}

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
void LockMutex() { CHECK(pthread_mutex_lock(&mutex) == 0); }
void UnlockMutex() { CHECK(pthread_mutex_unlock(&mutex) == 0); }

struct Variant {
  const char* name;
  void (*step)();
};
constexpr Variant kVariants[] = {
    {"alone", nullptr},       {"threads", UseThread}, {"files", UseFiles},
    {"spawn", StartPrograms}, {"mutex", ForkOnce},
};

std::atomic<bool> stop{false};
void* Repeat(void* variant) {
  while (!stop) static_cast<const Variant*>(variant)->step();
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  const Variant* variant = kVariants;
  while (strcmp(variant->name, argv[1]) != 0) CHECK(++variant != std::end(kVariants));
  if (variant->step == ForkOnce) {
    CHECK(pthread_atfork(LockMutex, UnlockMutex, UnlockMutex) == 0);
  }
  struct sigaction action = {};
  action.sa_handler = ForkInHandler;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  alarm(kSecondsWithoutFork);
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    threads[i] = StartThread(Work, reinterpret_cast<void*>(i + 1));
  }
  pthread_t other{};
  if (variant->step != nullptr) other = StartThread(Repeat, const_cast<Variant*>(variant));
  for (pthread_t& thread : threads) JoinThread(thread);
  stop = true;
  if (variant->step != nullptr) JoinThread(other);
  return 0;
}
