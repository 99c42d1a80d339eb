// SPDX-License-Identifier: BSD-3-Clause
// Many threads on many CPUs, for a machine that has them (scripts/test_many_cpus.py). Linked with
// the static library, whose invariants it checks once its threads have ended.
//
//   many_cpus facts                   how the library learns its CPU, and reaches blocked threads
//   many_cpus work THREADS SECONDS    threads pass objects on, end and start anew, while one
//                                     flushes and releases; 0 seconds: until the end of stdin
//   many_cpus moves THREADS SECONDS   the same, and each thread moves itself to one CPU after the
//                                     other
//   many_cpus flush THREADS SECONDS   threads that sleep with full caches; then threads that work
//                                     while another one flushes without a pause
#include <linux/membarrier.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include "../check.h"
#include "central/shard.h"
#include "process/heap.h"
#include "sleepers.h"
#include "tcmalloc/tcmalloc.h"
#include "workers.h"

namespace {

constexpr unsigned kSeed = 1564;
constexpr int kMostCpus = 1024;

std::array<std::atomic<bool>, kMostCpus> seen;  // CPUs on which threads ran

cpu_set_t AllCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); ++cpu) CPU_SET(cpu, &set);
  return set;
}

void SeeCpu(int step, unsigned*) {
  if (step % 16 != 0) return;
  const int cpu = sched_getcpu();
  CHECK(cpu >= 0 && cpu < kMostCpus);
  seen[static_cast<size_t>(cpu)].store(true, std::memory_order_relaxed);
}

// Moves to a random CPU. The kernel refuses a CPU that is offline or that the cpuset forbids.
void MoveAndSeeCpu(int step, unsigned* random) {
  if (step % 64 == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((Workers::Next(random) >> 8) % static_cast<unsigned>(sysconf(_SC_NPROCESSORS_CONF)),
            &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) CHECK(errno == EINVAL);
  }
  SeeCpu(step, random);
}

// Prints every few seconds how many operations there were, so that a machine that is slow can be
// told from threads that wait for ever.
class Progress {
 public:
  ~Progress() {
    over_ = true;
    thread_.join();
  }

 private:
  void Run() {
    for (int tick = 1; !over_; ++tick) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (tick % 100 != 0) continue;
      printf("%zu objects, %zu threads began\n", Workers::operations.load(), Workers::lives.load());
      fflush(stdout);
    }
  }

  std::atomic<bool> over_{false};
  std::thread thread_{[this] { Run(); }};
};

// Lasts until `seconds` have passed or, if they are 0, until stdin ends.
class Until {
 public:
  explicit Until(long seconds) : seconds_(seconds) {}
  bool Over() const {
    if (seconds_ > 0)
      return std::chrono::steady_clock::now() - start_ >= std::chrono::seconds(seconds_);
    pollfd in = {STDIN_FILENO, POLLIN, 0};
    char byte;
    return poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
  }

 private:
  long seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

size_t Property(const char* name) {
  size_t value = 0;
  CHECK(tcmalloc_get_numeric_property(name, &value) == 1);
  return value;
}

size_t NumShards() {
  size_t shards = 0;
  tcmalloc::GlobalHeap().central.shards().ForEach([&](const tcmalloc::Shard&) { ++shards; });
  return shards;
}

// The number of the CPU in the memory that the kernel writes when it moves the calling thread.
unsigned CpuOfRseq() {
  CHECK(__rseq_size >= sizeof(uint32_t) * 2);
  const char* area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  return reinterpret_cast<const volatile rseq*>(area)->cpu_id;
}

void FlushSleepers(unsigned threads) {
  const Sleepers sleepers(threads);
  const size_t cached = ThreadCacheBytes();
  const size_t moved = tcmalloc_flush_thread_caches();
  const size_t left = ThreadCacheBytes();
  printf("%u sleeping threads: %zu KiB in %zu caches, %zu KiB flushed, %zu left\n", threads,
         cached >> 10, Property("tcmalloc.thread_cache_count"), moved >> 10, left);
  CHECK(moved >= size_t{threads} * 1000);
  CHECK(left == 0);
}

// On each CPU.
void CheckFacts() {
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  CHECK(commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0);
  const cpu_set_t all = AllCpus();
  unsigned cpus = 0;
  for (unsigned cpu = 0; cpu < static_cast<unsigned>(CPU_COUNT(&all)); ++cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) continue;
    CHECK(CpuOfRseq() == cpu && sched_getcpu() == static_cast<int>(cpu));
    CHECK(tcmalloc::GlobalHeap().central.shards().CurrentCpu() == static_cast<int>(cpu));
    Free(NewMarked(300'000, cpu));  // an object of the CPU's shard
    ++cpus;
  }
  CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
  printf(
      "%u CPUs: on each the restartable sequence's area, sched_getcpu and the library agree; %zu "
      "shards\n",
      cpus, NumShards());
  CHECK(NumShards() == std::min<size_t>(cpus, tcmalloc::kMaxShardsOfCpus));
  // Without membarrier, sleeping threads keep their caches.
  CHECK(tcmalloc::GlobalHeap().settings.membarrier);
  FlushSleepers(2 * cpus);
  printf("membarrier empties the caches of sleeping threads\n");
}

// Flushes, or one kind of maintenance after the other, until the end. Releases are small: each
// system call waits for all CPUs, which an emulated machine runs one after the other. A trim comes
// at the end.
void Maintain(const Until& until, bool flushes_only) {
  void (*const kinds[])() = {[] { tcmalloc_flush_thread_caches(); },
                             [] { tcmalloc_flush_central_caches(); },
                             [] { tcmalloc_release_to_system(1 << 20); }, [] { mallinfo2(); }};
  size_t rounds = 0;
  for (; !until.Over(); ++rounds) {
    Workers::AwaitOperations([&until] { return until.Over(); });
    kinds[flushes_only ? 0 : rounds % std::size(kinds)]();
  }
  printf("%zu rounds of maintenance\n", rounds);
  CHECK(rounds > 0);
}

void RunWorkers(unsigned threads, long seconds, bool moves, bool flushes_only) {
  {
    const Progress progress;
    const Workers workers(threads, kSeed, moves ? &MoveAndSeeCpu : &SeeCpu);
    printf("works\n");
    fflush(stdout);
    Maintain(Until(seconds), flushes_only);
  }
  size_t cpus = 0;
  for (const std::atomic<bool>& cpu : seen) cpus += cpu.load();
  printf("%zu objects by %zu threads, %u at a time, on %zu CPUs, %zu shards\n",
         Workers::operations.load(), Workers::lives.load(), threads, cpus, NumShards());
}

// Call this when all threads have ended and each object was freed.
void CheckHeap(size_t in_use_before) {
  malloc_trim(0);
  const size_t in_use = mallinfo2().uordblks;
  printf("at the end %zu KiB in use, at the start %zu KiB\n", in_use >> 10, in_use_before >> 10);
  CHECK(in_use <= in_use_before + 65536);
  tcmalloc::GlobalHeap().CheckInvariants();
  printf("all invariants hold\n");
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2 || argc == 4);
  Free(Malloc(100));
  CHECK(tcmalloc::HeapExists());
  printf("seed %u\n", kSeed);
  // The C++ library's and stdio's own objects exist.
  std::thread([] {}).join();
  const size_t in_use = mallinfo2().uordblks;
  const std::string_view what = argv[1];
  const unsigned threads = argc == 4 ? static_cast<unsigned>(atoi(argv[2])) : 0;
  const long seconds = argc == 4 ? atol(argv[3]) : 0;
  if (what == "facts") {
    CheckFacts();
  } else if (what == "work" || what == "moves") {
    RunWorkers(threads, seconds, what == "moves", false);
  } else if (what == "flush") {
    FlushSleepers(threads);
    RunWorkers(threads, seconds, false, true);
  } else {
    CHECK(false);
  }
  CheckHeap(in_use);
  return 0;
}
