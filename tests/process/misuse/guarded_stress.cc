// SPDX-License-Identifier: BSD-3-Clause
// Tests guarded samples around fork. Threads allocate and free objects, also each other's, which
// are all guarded as far as the pool has room, while the main thread forks. Each child can allocate
// guarded objects, free those of the parent, start a thread and fork again.

#include <atomic>
#include <thread>
#include <vector>

#include "../check.h"
#include "tcmalloc/tcmalloc.h"

namespace {

constexpr int kThreads = 4;
constexpr int kChildren = 100;
constexpr unsigned kChildSeconds = 60;  // SIGALRM ends a child that hangs

std::atomic<bool> stop;
std::atomic<char*> exchange[64];  // objects that one thread allocates and another one frees

size_t Property(const char* name) {
  size_t value = 0;
  CHECK(tcmalloc_get_numeric_property(name, &value) == 1);
  return value;
}

char* NewObject(unsigned seed) {
  const size_t size = 1 + seed % 5000;
  char* const object = static_cast<char*>(malloc(size));
  CHECK(object != nullptr);
  object[0] = object[size - 1] = 1;
  return object;
}

void Step(unsigned* seed) {
  *seed = *seed * 1664525 + 1013904223;
  free(exchange[(*seed >> 24) % 64].exchange(NewObject(*seed >> 8)));
}

void Busy(unsigned seed) {
  while (!stop.load(std::memory_order_relaxed)) Step(&seed);
}

void FreeAll() {
  for (auto& object : exchange) free(object.exchange(nullptr));
}

[[noreturn]] void RunChild(unsigned seed, bool forks_again) {
  alarm(kChildSeconds);
  for (int i = 0; i < 200; ++i) Step(&seed);
  std::thread([seed]() mutable {
    for (int i = 0; i < 200; ++i) Step(&seed);
  }).join();
  if (forks_again) {
    const pid_t child = fork();
    if (child == 0) RunChild(seed, false);
    AwaitChild(child);
  }
  // Objects of the parent that its other threads held stay; all others can be
  // freed, and the pool has room for new ones.
  FreeAll();
  const size_t left = Property("tcmalloc.guarded_objects");
  CHECK(Property("tcmalloc.guarded_bytes") <= size_t{512} << 10);
  char* const object = NewObject(100);
  CHECK(Property("tcmalloc.guarded_objects") == left + 1);
  free(object);
  CHECK(Property("tcmalloc.guarded_objects") == left);
  _exit(0);
}

}  // namespace

int main() {
  RequireLibraryUnderTest();
  CHECK(tcmalloc_set_numeric_property("tcmalloc.sample_parameter", 1) == 1);
  CHECK(tcmalloc_set_numeric_property("tcmalloc.guarded_sample", 1) == 1);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) threads.emplace_back(&Busy, 20261125 + t);
  for (unsigned i = 0; i < kChildren; ++i) {
    const pid_t child = fork();
    if (child == 0) RunChild(i, i % 8 == 0);
    AwaitChild(child);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  FreeAll();
  printf("%d children\n", kChildren);
  return 0;
}
