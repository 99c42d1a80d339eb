// SPDX-License-Identifier: BSD-3-Clause
// bench_inspection_pauses: measures for how long the tcmalloc command stops a process. It prints a
// line for each command ('profile', 'objects', 'inspect'), number of threads and size of the heap,
// with the pauses of many stops.
//
// The process is this program again, with the library preloaded. Its objects are not touched, so a
// heap of 10 GiB needs memory only for the allocator's records, which the command copies. It
// samples one allocation per 512 KiB on average. Its threads sleep, and wake ten times a second to
// replace an object that is probably sampled, so the samples keep changing.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/fail.h"
#include "commands/open_process.h"
#include "heap/profile.h"

namespace tcmalloc::bench {
namespace {

constexpr size_t kGiB = size_t{1} << 30;
constexpr auto kNap = std::chrono::milliseconds(100);
constexpr char kInterval[] = "524288";
constexpr size_t kSampledBytes = size_t{1} << 20;

// Runs in each thread of the inspected process.
[[noreturn]] void ReplaceObjects() {
  for (void* object = nullptr;;) {
    std::this_thread::sleep_for(kNap);
    free(object);
    object = malloc(kSampledBytes);
  }
}

// Runs in the inspected process: prints the address of an object, and waits until it is killed.
[[noreturn]] void BeTarget(size_t threads, size_t gib, size_t object_bytes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  void* object = nullptr;
  for (size_t i = 0; i < gib * kGiB / object_bytes; ++i) {
    object = malloc(object_bytes);
    if (object == nullptr) Fail("out of memory");
  }
  std::atomic<size_t> started{0};
  std::vector<std::thread> all;
  for (size_t i = 1; i < threads; ++i) {
    all.emplace_back([&started, i] {
      free(malloc(i));
      ++started;
      ReplaceObjects();
    });
  }
  while (started < threads - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  printf("%" PRIuPTR "\n", reinterpret_cast<uintptr_t>(object));
  fflush(stdout);
  ReplaceObjects();
}

struct Target {
  pid_t pid;
  uintptr_t object;
};

Target StartTarget(const char* self, const std::string& library, size_t threads, size_t gib,
                   size_t object_bytes) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) Fail("pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    setenv("LD_PRELOAD", library.c_str(), 1);
    setenv("TCMALLOC_SAMPLE_PARAMETER", kInterval, 1);
    execl(self, self, "--target", std::to_string(threads).c_str(), std::to_string(gib).c_str(),
          std::to_string(object_bytes).c_str(), nullptr);
    _exit(127);
  }
  close(out[1]);
  FILE* const answer = fdopen(out[0], "r");
  Target target{.pid = pid, .object = 0};
  if (fscanf(answer, "%" SCNuPTR, &target.object) != 1) Fail("the target did not start");
  fclose(answer);
  return target;
}

double Quantile(const std::vector<double>& sorted, double q) {
  return sorted[std::min(sorted.size() - 1,
                         static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

void PrintPauses(cli::OpenProcess& process, const char* command, size_t threads, size_t gib,
                 size_t stops, const cli::Reading& read, bool scattered) {
  cli::Pauses pauses = cli::MeasurePauses(process, read, stops, scattered);
  std::sort(pauses.ms.begin(), pauses.ms.end());
  printf("| `%s` | %zu | %zu | %.1f | %.2f | %.2f | %.2f | %zu |\n", command, threads, gib,
         static_cast<double>(pauses.copied_bytes) / (1 << 20), Quantile(pauses.ms, 0.5),
         Quantile(pauses.ms, 0.99), pauses.ms.back(), pauses.refused);
  fflush(stdout);
}

void Measure(const char* self, const std::string& library, size_t threads, size_t gib,
             size_t object_bytes, size_t stops) {
  const Target target = StartTarget(self, library, threads, gib, object_bytes);
  const auto objects = [](const cli::Target& heap, std::vector<cli::Guard>* guards) {
    const cli::HeapObjects found(heap);
    found.AddGuards(guards);
    found.ForEachSpan(
        [&found](const cli::SpanInfo& span) { static_cast<void>(found.CountInUse(span)); });
  };
  const auto inspect = [&](const cli::Target& heap, std::vector<cli::Guard>* guards) {
    const cli::HeapObjects found(heap);
    found.AddGuards(guards);
    static_cast<void>(found.Find(target.object));
  };
  cli::OpenProcess process = cli::OpenProcessFor(target.pid);
  cli::CallStacks stacks(*process.image);
  const auto profile = [&stacks](const cli::Target& heap, std::vector<cli::Guard>* guards) {
    static_cast<void>(cli::ReadSamples(heap, guards, &stacks));
  };
  PrintPauses(process, "profile", threads, gib, stops, profile, true);
  PrintPauses(process, "objects", threads, gib, stops, objects, false);
  PrintPauses(process, "inspect", threads, gib, stops, inspect, true);
  kill(target.pid, SIGKILL);
  waitpid(target.pid, nullptr, 0);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) {
  using namespace tcmalloc::bench;
  Arguments arguments(argc, argv, "how long the tcmalloc command stops a process");
  if (arguments.Flag("--target", "the process that is looked at: threads, GiB, bytes")) {
    const size_t threads = arguments.Number("threads", 1, 1, kMostThreads);
    const size_t gib = arguments.Number("gib", 1, 0, 1000);
    const size_t bytes = arguments.Number("object_bytes", 64, 8, 1 << 20);
    BeTarget(threads, gib, bytes);
  }
  const size_t stops = arguments.Number("stops", 200, 1, 100'000);
  const size_t object_bytes = arguments.Number("object_bytes", 64, 8, 1 << 20);
  arguments.End();
  const std::string self(argv[0]);
  const std::string library = self.substr(0, self.rfind('/') + 1) + "../lib/libtcmalloc.so.4";
  printf(
      "| command | threads | heap, GiB | copied, MiB | median, ms | 99 %%, ms | most, ms | "
      "no rest |\n|---|---|---|---|---|---|---|---|\n");
  for (const size_t gib : {size_t{1}, size_t{10}}) {
    for (const size_t threads : {size_t{1}, size_t{64}, size_t{1000}}) {
      Measure(argv[0], library, threads, gib, object_bytes, stops);
    }
  }
  return 0;
}
