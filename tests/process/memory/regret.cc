// SPDX-License-Identifier: BSD-3-Clause
// regret WORKLOAD: what a program frees and needs again at once costs hardly more page faults than
// in a process that releases nothing.
//   growth   a block grows by realloc to 32 MiB, again and again
//   list     a list of small objects is built and dropped, again and again
//   phases   two threads allocate 64 MiB, free them and end, again and again
//   teeth    eight threads that live on do so
// The program runs the workload in a child process without release, then in itself, and compares:
// at most 1.05 times the page faults, and those that take 2 % of the time. Hugepages are off, so
// that the numbers do not depend on what the kernel has.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../check.h"

namespace {

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kSeed = 20261128;
// Page faults of 4 KiB that take 2 % of a second, at 1.4 us each.
constexpr double kFaultsPerSecond = 0.02 / 1.4e-6;
// The most page faults that may differ for other reasons: the library decides each time it has
// freed 1 MiB, and the threads of the two runs take turns differently.
constexpr long kFewFaults = 1000;

double Seconds() {
  timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

long PageFaults() {
  rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

void Growth() {
  for (int round = 0; round < 20; ++round) {
    char* block = nullptr;
    size_t filled = 0;
    for (size_t size = kKiB; size <= 32 * kMiB; size *= 2) {
      block = static_cast<char*>(Realloc(block, size));
      CHECK(block != nullptr);
      memset(block + filled, 1, size - filled);
      filled = size;
    }
    Free(block);
  }
}

// Builds a list of objects of up to `most` bytes, together `bytes`, and drops it.
void BuildAndDrop(size_t bytes, size_t most, uint64_t seed) {
  std::mt19937_64 random(seed);
  void** list = nullptr;
  for (size_t total = 0; total < bytes;) {
    const size_t size = sizeof(void*) + random() % most;
    void** const object = reinterpret_cast<void**>(NewMarked(size, 1));
    *object = list;
    list = object;
    total += size;
  }
  while (list != nullptr) {
    void** const next = static_cast<void**>(*list);
    Free(list);
    list = next;
  }
}

void List() {
  for (uint64_t round = 0; round < 10; ++round) BuildAndDrop(60 * kMiB, 2000, kSeed + round);
}

void* Phase(void* thread) {
  BuildAndDrop(32 * kMiB, 500, kSeed + reinterpret_cast<uintptr_t>(thread));
  return nullptr;
}

void* Teeth(void* thread) {
  for (int round = 0; round < 10; ++round) Phase(thread);
  return nullptr;
}

void OnThreads(void* (*run)(void*), uintptr_t num_threads) {
  pthread_t threads[8];
  for (uintptr_t i = 0; i < num_threads; ++i) {
    threads[i] = StartThread(run, reinterpret_cast<void*>(i));
  }
  for (uintptr_t i = 0; i < num_threads; ++i) JoinThread(threads[i]);
}

void Run(const char* workload) {
  if (strcmp(workload, "growth") == 0) return Growth();
  if (strcmp(workload, "list") == 0) return List();
  if (strcmp(workload, "teeth") == 0) return OnThreads(&Teeth, 8);
  CHECK(strcmp(workload, "phases") == 0);
  for (int round = 0; round < 12; ++round) OnThreads(&Phase, 2);
}

// The page faults of the workload in a process that releases nothing.
long PageFaultsWithoutRelease(char** argv) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    CHECK(setenv("TCMALLOC_RELEASE_RATE", "0", 1) == 0);
    execv("/proc/self/exe", argv);
    CHECK(false);
  }
  CHECK(close(ends[1]) == 0);
  char text[32] = "";
  CHECK(read(ends[0], text, sizeof(text) - 1) > 0);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  return strtol(text, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2);
  // The library asks for hugepages when it is loaded.
  if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 0) {
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    execv("/proc/self/exe", argv);
    CHECK(false);
  }
  const bool is_child = getenv("TCMALLOC_RELEASE_RATE") != nullptr;
  const long others = is_child ? 0 : PageFaultsWithoutRelease(argv);
  const long before = PageFaults();
  const double start = Seconds();
  Run(argv[1]);
  const long faults = PageFaults() - before;
  if (is_child) {
    dprintf(STDOUT_FILENO, "%ld\n", faults);
    return 0;
  }
  const double budget = (Seconds() - start) * kFaultsPerSecond;
  dprintf(STDOUT_FILENO, "%ld page faults; without release %ld; %.0f more take 2 %% of the time\n",
          faults, others, budget);
  CHECK(static_cast<double>(faults) <=
        1.05 * static_cast<double>(others) + budget + static_cast<double>(kFewFaults));
}
