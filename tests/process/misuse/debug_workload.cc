// SPDX-License-Identifier: BSD-3-Clause
// Threads that allocate, write all bytes of their objects, pass them on and free them, without a
// bug, on a debug library: a check of the heap meanwhile must find no damage.
//
//   debug_workload verify [THREADS]   checks the heap itself, by
//   MallocExtension, until the threads
//                                 end, and in children
//   debug_workload wait [THREADS]     works until a line on stdin
//
// There are eight threads unless the command says how many.
#include <gperftools/malloc_extension_c.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "../check.h"

namespace {

constexpr size_t kThreads = 8;
constexpr int kOperations = 160'000;  // of all threads together
constexpr size_t kMostObjects = 1000;
constexpr uint64_t kSeed = 20261125;
std::atomic<bool> end{false};

struct Object {
  char* start;
  size_t size;
};
std::mutex passed_lock;
std::vector<Object> passed;

void Work(uint64_t seed, int operations) {
  std::mt19937_64 random(seed);
  std::vector<Object> own;
  for (int i = 0; operations == 0 ? !end.load() : i < operations; ++i) {
    // The reader of another process needs a processor, too.
    if (operations == 0 && i % 256 == 0) usleep(1000);
    const uint64_t choice = own.size() < kMostObjects ? random() % 16 : 12;
    if (choice < 8 || own.empty()) {
      const size_t size = random() % (random() % 64 == 0 ? 300'000 : 500);
      char* const start = static_cast<char*>(
          choice == 0 ? memalign(size_t{1} << (4 + random() % 10), size) : Malloc(size));
      CHECK(start != nullptr);
      memset(start, static_cast<int>(choice), size);
      own.push_back({start, size});
    } else if (choice < 11) {
      const std::lock_guard lock(passed_lock);
      std::swap(own[random() % own.size()], own.back());
      passed.push_back(own.back());
      std::swap(passed[random() % passed.size()], passed.back());
      own.back() = passed.back();
      passed.pop_back();
    } else if (choice == 11) {
      Object& object = own[random() % own.size()];
      object.size = random() % 1000 + 1;
      object.start = static_cast<char*>(Realloc(object.start, object.size));
      memset(object.start, 1, object.size);
    } else {
      std::swap(own[random() % own.size()], own.back());
      Free(own.back().start);
      own.pop_back();
    }
  }
  for (const Object& object : own) Free(object.start);
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc == 2 || argc == 3);
  const bool verify = strcmp(argv[1], "verify") == 0;
  const size_t num_threads = argc == 3 ? static_cast<size_t>(atoi(argv[2])) : kThreads;
  const int operations = verify ? kOperations / static_cast<int>(num_threads) : 0;
  printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  fflush(stdout);
  std::atomic<size_t> running{num_threads};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < num_threads; ++i) {
    threads.emplace_back([i, operations, &running] {
      Work(kSeed + i, operations);
      --running;
    });
  }
  int checks = 0;
  if (verify) {
    // A child has the queue, and its locks are free.
    while (running.load() > 0) {
      CHECK(MallocExtension_VerifyAllMemory() == 1);
      if (++checks % 4 != 0) continue;
      // The child takes the lock, too: no other thread may hold it at the fork.
      passed_lock.lock();
      const pid_t child = fork();
      passed_lock.unlock();
      if (child == 0) {
        Work(kSeed, 1000);
        CHECK(MallocExtension_VerifyAllMemory() == 1);
        _exit(0);
      }
      AwaitChild(child);
    }
  } else {
    getchar();
    end.store(true);
  }
  for (std::thread& thread : threads) thread.join();
  printf("%d checks\n", checks);
  for (const Object& object : passed) Free(object.start);
  return 0;
}
