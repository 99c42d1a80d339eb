// SPDX-License-Identifier: BSD-3-Clause

// fork-cost: measures the cost of an allocator's fork handlers. PROCESSORS threads, each on a CPU
// of its own according to sched_getcpu, allocate objects of all sizes up to 64 KiB, and keep half
// of them. Then the process forks FORKS times, with handlers and (by the clone system call)
// without; each child ends at once. Two more children measure how much memory they copied because
// of the handlers of parent and child.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/fail.h"
#include "bench/common/mapped_array.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

thread_local int this_processor = 0;

constexpr size_t kLargest = 64 * 1024;
// The number of objects of each size. For most sizes it is more than a thread's cache keeps.
constexpr size_t kOfEachSize = 24;

pid_t ForkWithHandlers() { return fork(); }
pid_t ForkWithoutHandlers() {
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

void Await(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) Fail("a child failed");
}

// Returns the time of a fork in microseconds.
double ForkTime(pid_t (*fork_process)()) {
  const double start = Now();
  const pid_t child = fork_process();
  if (child == 0) _exit(0);
  Await(child);
  return (Now() - start) * 1e6;
}

// Returns the KiB of private memory of the process by the kernel's figures. Allocates nothing.
long PrivateDirty() {
  static char text[4096];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY);
  size_t length = 0;
  for (ssize_t n; length < sizeof(text) - 1; length += static_cast<size_t>(n)) {
    n = read(file, text + length, sizeof(text) - 1 - length);
    if (n <= 0) break;
  }
  text[length] = 0;
  const char* const line = strstr(text, "Private_Dirty:");
  return line == nullptr ? -1 : strtol(line + strlen("Private_Dirty:"), nullptr, 10);
}

// Returns the private memory of a child, after its handlers and the parent's.
long ChildsDirty(pid_t (*fork_process)()) {
  int results[2];
  int starts[2];
  if (pipe(results) != 0 || pipe(starts) != 0) Fail("no pipe");
  const pid_t child = fork_process();
  char byte = 0;
  long dirty = -1;
  if (child == 0) {
    if (read(starts[0], &byte, 1) != 1) _exit(1);
    dirty = PrivateDirty();
    _exit(write(results[1], &dirty, sizeof(dirty)) == sizeof(dirty) ? 0 : 1);
  }
  if (write(starts[1], &byte, 1) != 1 || read(results[0], &dirty, sizeof(dirty)) != sizeof(dirty) ||
      dirty < 0) {
    Fail("a child could not measure its memory");
  }
  Await(child);
  for (const int file : {results[0], results[1], starts[0], starts[1]}) close(file);
  return dirty;
}

template <typename T>
T Median(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv,
                      "Time of fork and wait, and memory that is copied for the child.");
  const uint64_t processors = arguments.Number("PROCESSORS", 16, 1, 1024);
  const uint64_t forks = arguments.Number("FORKS", 200, 1, 1'000'000);
  arguments.End();

  Barrier ready(processors + 1);
  Barrier measured(processors + 1);
  struct Thread {
    Barrier& ready;
    Barrier& measured;
    void operator()(size_t number) const {
      this_processor = static_cast<int>(number);
      std::vector<void*> objects;
      for (size_t size = 8; size <= kLargest; size += std::max<size_t>(size / 8, 8)) {
        for (size_t i = 0; i < kOfEachSize; ++i) {
          objects.push_back(memset(malloc(size), 1, size));
        }
      }
      for (size_t i = 0; i < objects.size(); i += 2) free(objects[i]);
      ready.Wait();
      measured.Wait();
      for (size_t i = 1; i < objects.size(); i += 2) free(objects[i]);
    }
  };
  const Thread body{ready, measured};
  MappedArray<ThreadStart<const Thread, size_t>> starts(processors);
  MappedArray<pthread_t> threads(processors);
  for (size_t i = 0; i < processors; ++i) {
    starts[i] = {.body = &body, .argument = i};
    threads[i] = starts[i].Create();
  }
  ready.Wait();

  MeasuredPart part;
  std::vector<double> times[2];
  std::vector<long> dirty[2];
  pid_t (*const ways[2])() = {&ForkWithHandlers, &ForkWithoutHandlers};
  for (uint64_t i = 0; i < forks; ++i) {
    for (size_t w = 0; w < 2; ++w) times[w].push_back(ForkTime(ways[w]));
  }
  for (int i = 0; i < 5; ++i) {
    for (size_t w = 0; w < 2; ++w) dirty[w].push_back(ChildsDirty(ways[w]));
  }
  part.End();
  measured.Wait();
  for (size_t i = 0; i < processors; ++i) JoinThread(threads[i]);

  Report report("fork-cost", part);
  const double with = Median(times[0]);
  report.Value("fork_and_wait_us", with, "us", Better::kLower);
  report.Value("handlers_us", with - Median(times[1]), "us", Better::kLower);
  report.Value("child_dirty_kib", static_cast<double>(Median(dirty[0]) - Median(dirty[1])), "KiB",
               Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

// The allocator calls this function instead of the C library's.
extern "C" __attribute__((visibility("default"))) int sched_getcpu() {
  return tcmalloc::bench::this_processor;
}

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
