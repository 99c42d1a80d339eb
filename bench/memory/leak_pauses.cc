// SPDX-License-Identifier: BSD-3-Clause
// bench_leak_pauses: measures how long a search for leaked objects stops a process. 'tcmalloc
// leaks' searches from outside; it copies the memory while the process is stopped, or forks the
// process (--snapshot). The library's own checker (tcmalloc_check_leaks) searches while the process
// is stopped. It prints a line for each size of the heap.
//
// The process is this program again, with the library preloaded. All of its objects are written,
// linked in a thousand chains, and reachable. It has a second thread, which sleeps. The checker's
// result says for how long the checker stopped that thread.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/fail.h"
#include "commands/find_leaks.h"
#include "commands/open_process.h"
#include "tcmalloc/leak_checker.h"

namespace tcmalloc::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr size_t kGiB = size_t{1} << 30;
constexpr size_t kChains = 1000;

void* volatile heads[kChains];
// Runs in the inspected process. For each line on stdin, the process checks itself for leaks, and
// writes the pause in milliseconds and the number of leaked objects.
[[noreturn]] void BeTarget(size_t gib, size_t object_bytes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (size_t i = 0; i < gib * kGiB / object_bytes; ++i) {
    void* const object = malloc(object_bytes);
    if (object == nullptr) Fail("out of memory");
    memset(object, 0, object_bytes);
    *static_cast<void**>(object) = heads[i % kChains];
    heads[i % kChains] = object;
  }
  std::thread([] {
    for (;;) pause();
  }).detach();
  const auto check = reinterpret_cast<decltype(&tcmalloc_check_leaks)>(
      dlsym(RTLD_DEFAULT, "tcmalloc_check_leaks"));
  const auto get_info = reinterpret_cast<decltype(&tcmalloc_leaks_get_info)>(
      dlsym(RTLD_DEFAULT, "tcmalloc_leaks_get_info"));
  if (check == nullptr || get_info == nullptr) Fail("the library has no leak checker");
  printf("ready\n");
  fflush(stdout);
  for (char line[16]; fgets(line, sizeof(line), stdin) != nullptr;) {
    tcmalloc_leaks_info info;
    get_info(check(0), &info);
    printf("%f\n",
           info.outcome == TCMALLOC_LEAKS_DONE ? static_cast<double>(info.pause_ns) / 1e6 : -1);
    fflush(stdout);
  }
  _exit(0);
}

class Target {
 public:
  Target(const char* self, const std::string& library, size_t gib, size_t object_bytes) {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) Fail("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      setenv("LD_PRELOAD", library.c_str(), 1);
      execl(self, self, "--target", std::to_string(gib).c_str(),
            std::to_string(object_bytes).c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
    char line[16];
    if (fgets(line, sizeof(line), from_) == nullptr) Fail("the target did not start");
  }
  ~Target() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  // Returns the pause of the process's own check.
  double CheckItself() {
    fputs("check\n", to_);
    fflush(to_);
    double ms = 0;
    if (fscanf(from_, "%lf", &ms) != 1 || ms < 0) Fail("the target did not check itself");
    return ms;
  }

 private:
  pid_t pid_;
  FILE* to_;
  FILE* from_;
};

void Measure(const char* self, const std::string& library, size_t gib, size_t object_bytes,
             size_t checks) {
  Target target(self, library, gib, object_bytes);
  cli::OpenProcess process = cli::OpenProcessFor(target.pid());
  double outside_ms = 0;
  double fork_ms = 0;
  double fork_existed_ms = 0;
  double search_ms = 0;
  double inside_ms = 0;
  double copied_mib = 0;
  for (size_t i = 0; i < checks; ++i) {
    const Clock::time_point start = Clock::now();
    const cli::FoundLeaks found = cli::FindLeaksStopped(process, {});
    search_ms = std::max(search_ms, Milliseconds(Clock::now() - start).count());
    outside_ms = std::max(outside_ms, found.mode.pause_ms);
    copied_mib = static_cast<double>(found.copied_bytes) / (1 << 20);
    if (!found.search.incomplete.empty()) Fail("%s", found.search.incomplete[0].c_str());
  }
  for (size_t i = 0; i < checks; ++i) {
    const cli::FoundLeaks found = cli::FindLeaksForked(process, {});
    fork_ms = std::max(fork_ms, found.mode.pause_ms);
    fork_existed_ms = std::max(fork_existed_ms, found.mode.fork_ms);
    if (!found.search.incomplete.empty()) Fail("%s", found.search.incomplete[0].c_str());
  }
  for (size_t i = 0; i < checks; ++i) inside_ms = std::max(inside_ms, target.CheckItself());
  printf("| %zu | %zu | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |\n", gib, object_bytes, copied_mib,
         outside_ms, search_ms, fork_ms, fork_existed_ms, inside_ms);
  fflush(stdout);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) {
  using namespace tcmalloc::bench;
  Arguments arguments(argc, argv, "how long a search for leaks stops a process");
  if (arguments.Flag("--target", "the process that is looked at: GiB, bytes")) {
    const size_t gib = arguments.Number("gib", 1, 0, 1000);
    BeTarget(gib, arguments.Number("object_bytes", 64, 8, 1 << 20));
  }
  const size_t gib = arguments.Number("gib", 1, 0, 1000);
  const size_t checks = arguments.Number("checks", 3, 1, 1000);
  const size_t object_bytes = arguments.Number("object_bytes", 64, 8, 1 << 20);
  arguments.End();
  const std::string self(argv[0]);
  const std::string library = self.substr(0, self.rfind('/') + 1) + "../lib/libtcmalloc.so.4";
  printf(
      "| heap, GiB | objects, bytes | copied, MiB | tcmalloc leaks: pause, ms | whole search, ms | "
      "--snapshot: pause, ms | fork existed, ms | own checker: pause, ms |\n"
      "|---|---|---|---|---|---|---|---|\n");
  Measure(argv[0], library, gib, object_bytes, checks);
  return 0;
}
