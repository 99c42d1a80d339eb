// SPDX-License-Identifier: BSD-3-Clause
//
// With TCMALLOC_SMALL=1 the same program takes less memory: sixteen threads have filled and emptied
// their caches with objects of many sizes, and sleep; free memory is released. Other variables that
// are set take precedence.
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../check.h"

extern char** environ;

namespace {

constexpr int kThreads = 16;

pthread_barrier_t done;
pthread_barrier_t measured;

void* FillAndEmpty(void*) {
  std::vector<void*> objects;
  for (size_t size = 16; size <= 64 << 10; size += size / 4) {
    const size_t count = (size_t{2} << 20) / size;
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < count; ++i) {
        objects.push_back(Malloc(size));
        memset(objects.back(), 1, size);
      }
      for (void* const object : objects) Free(object);
      objects.clear();
    }
  }
  std::vector<void*>().swap(objects);
  pthread_barrier_wait(&done);
  pthread_barrier_wait(&measured);
  return nullptr;
}

// Runs in a process of its own and prints how much is resident when all threads sleep.
int Measure() {
  CHECK(pthread_barrier_init(&done, nullptr, kThreads + 1) == 0);
  CHECK(pthread_barrier_init(&measured, nullptr, kThreads + 1) == 0);
  pthread_t threads[kThreads];
  for (pthread_t& thread : threads) {
    CHECK(pthread_create(&thread, nullptr, &FillAndEmpty, nullptr) == 0);
  }
  pthread_barrier_wait(&done);
  // Meanwhile free memory is released; the caches stay. Waits until nothing was released for longer
  // than the library remembers a peak of demand.
  size_t resident = SIZE_MAX;
  for (int unchanged = 0; unchanged < 50; ++unchanged) {
    const timespec pause = {.tv_sec = 0, .tv_nsec = 100'000'000};
    nanosleep(&pause, nullptr);
    const size_t now = ResidentBytes();
    if (now < resident) {
      resident = now;
      unchanged = 0;
    }
  }
  dprintf(STDOUT_FILENO, "%zu\n", resident);
  pthread_barrier_wait(&measured);
  for (const pthread_t thread : threads) CHECK(pthread_join(thread, nullptr) == 0);
  return 0;
}

size_t ResidentWith(const char* program, std::vector<std::string> settings) {
  int pipe_ends[2];
  CHECK(pipe(pipe_ends) == 0);
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.push_back(*variable);
  }
  for (std::string& setting : settings) environment.push_back(setting.data());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  CHECK(posix_spawn_file_actions_init(&actions) == 0);
  CHECK(posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO) == 0);
  std::string path = program;
  std::string word = "measure";
  char* const arguments[] = {path.data(), word.data(), nullptr};
  pid_t child;
  CHECK(posix_spawn(&child, program, &actions, nullptr, arguments, environment.data()) == 0);
  close(pipe_ends[1]);
  char text[64] = {};
  CHECK(read(pipe_ends[0], text, sizeof(text) - 1) > 0);
  close(pipe_ends[0]);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
  return strtoul(text, nullptr, 10);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  if (argc == 2) return Measure();
  const size_t normal = ResidentWith("/proc/self/exe", {});
  const size_t small = ResidentWith("/proc/self/exe", {"TCMALLOC_SMALL=1"});
  const size_t mixed =
      ResidentWith("/proc/self/exe", {"TCMALLOC_SMALL=1", "TCMALLOC_RELEASE_RATE=0",
                                      "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES=33554432"});
  dprintf(STDOUT_FILENO, "resident: %zu KiB; small %zu KiB; small but for the caches %zu KiB\n",
          normal >> 10, small >> 10, mixed >> 10);
  CHECK(small <= normal / 4 * 3);
  CHECK(mixed >= small + (size_t{4} << 20));
  return 0;
}
