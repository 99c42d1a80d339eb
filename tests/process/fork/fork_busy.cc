// SPDX-License-Identifier: BSD-3-Clause
// Forks a program whose threads are all inside the allocator: each child can allocate, free what
// the parent allocated, start threads, fork again and exit.
//
//   fork_busy [THREADS CHILDREN]   default: 4 and 120
#include <malloc.h>

#include <atomic>
#include <thread>
#include <vector>

#include "../check.h"

namespace {

// Each child waits for a CPU beside these threads several times.
constexpr unsigned kThreads = 4;
constexpr int kChildren = 120;
// SIGALRM ends a child that hangs. Many threads may keep it from a CPU for long.
constexpr unsigned kChildSeconds = 30;
unsigned child_seconds = kChildSeconds;

std::atomic<bool> stop;
std::atomic<char*> exchange[64];  // Objects that one busy thread allocates and another one frees.

void Busy(unsigned seed) {
  while (!stop.load(std::memory_order_relaxed)) {
    seed = seed * 1664525 + 1013904223;
    const size_t size = size_t{8} << (seed >> 8) % ((seed >> 16) % 64 == 0 ? 16 : 9);
    char* object = static_cast<char*>(Malloc(size));
    CHECK(object != nullptr);
    object[0] = object[size - 1] = 1;
    Free(exchange[(seed >> 24) % 64].exchange(object));
    if ((seed >> 12) % 1024 == 0) malloc_trim(0);
  }
}

void UseThreads() {
  std::thread first([] { Exercise(1); });
  std::thread second([] { Exercise(2); });
  Exercise(3);
  first.join();
  second.join();
}

[[noreturn]] void RunChild(int number, char* from_parent) {
  alarm(child_seconds);
  Exercise(static_cast<unsigned>(number));
  FreeMarked(from_parent, 1000, 0x51);
  // Frees objects of the busy threads, which do not exist in the child.
  for (auto& object : exchange) Free(object.exchange(nullptr));
  UseThreads();
  malloc_trim(0);
  mallinfo2();
  const pid_t grandchild = fork();
  CHECK(grandchild >= 0);
  if (grandchild == 0) {
    alarm(child_seconds);
    UseThreads();
    exit(0);
  }
  AwaitChild(grandchild);
  if (number % 2 == 0) exit(0);
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 1 || argc == 3);
  const unsigned num_threads = argc == 3 ? static_cast<unsigned>(atoi(argv[1])) : kThreads;
  const int num_children = argc == 3 ? atoi(argv[2]) : kChildren;
  if (num_threads > kThreads) child_seconds = kChildSeconds * num_threads / kThreads;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < num_threads; ++i) threads.emplace_back(Busy, i * 7919 + 1);
  for (int i = 0; i < num_children; ++i) {
    char* object = NewMarked(1000, 0x51);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) RunChild(i, object);
    FreeMarked(object, 1000, 0x51);
    Exercise(4);  // The parent continues as well.
    AwaitChild(child);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (auto& object : exchange) Free(object.exchange(nullptr));
  UseThreads();
  dprintf(STDOUT_FILENO, "%d children beside %u threads\n", num_children, num_threads);
  return 0;
}
