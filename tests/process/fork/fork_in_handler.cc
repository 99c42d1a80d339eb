// SPDX-License-Identifier: BSD-3-Clause
// Tests a signal handler that forks, whatever the interrupted thread was doing in the allocator.
// fork must return, in the parent and in the child. When the handler returns, the parent continues,
// and so does every second child. SIGALRM ends a process that hangs. fork_storm.cc has processes
// with several threads.
#include <malloc.h>
#include <signal.h>
#include <time.h>

#include "../check.h"

namespace {

constexpr int kForks = 500;
constexpr unsigned kSecondsWithoutFork = 40;
// The time between two signals varies; this is the longest time.
constexpr int kMostNanosecondsBetween = 300000;

volatile sig_atomic_t forks;
volatile sig_atomic_t is_child;
timer_t timer;

// Sets the time of the next signal. The signal does not come at a tick of the kernel, so it may
// interrupt any instruction. It does not come before the handler has returned, since it would then
// interrupt the same instruction again.
void SetTimer() {
  const int apart = 104729;  // a prime
  const itimerspec once = {{0, 0}, {0, 1 + forks * apart % kMostNanosecondsBetween}};
  CHECK(timer_settime(timer, 0, &once, nullptr) == 0);
}

// The handler makes only calls that are safe in a signal handler.
void Fork(int) {
  if (is_child != 0 || forks >= kForks) return;
  alarm(kSecondsWithoutFork);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(kSecondsWithoutFork);
    is_child = 1;
    // Every second child continues the interrupted operation.
    if (forks % 2 == 0) return;
    _exit(0);
  }
  forks = forks + 1;
  AwaitChild(child);
  SetTimer();
}

// These objects take all paths of the allocator: caches, batches, spans, large objects, released
// memory.
struct Object {
  char* address;
  size_t size;
};
// The number is small, since each child copies and checks all objects.
constexpr unsigned kObjects = 400;
Object objects[kObjects];
void Step(unsigned* random) {
  *random = *random * 1664525 + 1013904223;
  const unsigned bits = *random >> 8;
  Object& object = objects[bits % kObjects];
  if (object.address != nullptr) FreeMarked(object.address, object.size, object.size);
  object.size = (size_t{1} << bits % 7 << bits / kObjects % 12) + bits % 100;
  object.address = NewMarked(object.size, object.size);
  if (bits % 5000 == 0) malloc_trim(0);
}

// Frees all, so that batches and spans return.
void FreeAll() {
  for (Object& object : objects) {
    if (object.address != nullptr) FreeMarked(object.address, object.size, object.size);
    object.address = nullptr;
  }
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  struct sigaction action = {};
  action.sa_handler = Fork;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  alarm(kSecondsWithoutFork);
  SetTimer();
  unsigned random = 12345;
  for (unsigned step = 0; forks < kForks && is_child == 0; ++step) {
    Step(&random);
    if (step % 5000 == 4999) FreeAll();
  }
  // A child has no timer.
  if (is_child == 0) CHECK(timer_delete(timer) == 0);
  alarm(kSecondsWithoutFork);
  // The child continues to work, too.
  for (int i = 0; i < 300; ++i) Step(&random);
  FreeAll();
  Exercise(8);
  malloc_trim(0);
  if (is_child != 0) {
    // The child can fork like any other process.
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(0);
    AwaitChild(grandchild);
    _exit(0);
  }
  return 0;
}
