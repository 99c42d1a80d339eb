// SPDX-License-Identifier: BSD-3-Clause
// fake_processors ROW PROCESSORS NODES THREADS ROUNDS SEED pinned|moving [LOG]
//
// Runs a row of rows.h with THREADS threads on PROCESSORS fake CPUs of NODES nodes. Only the
// library uses the fake numbers (os/processor.h): thread t runs on CPU t mod PROCESSORS, or moves
// to any CPU before each round. Writes one line of JSON to stdout: what locks did per million
// operations, what is retained, and the steps of the operations on the whole heap. LOG: a file for
// the events of locks (bench/model/contention.py).
//
// Exit status 77: a release build, which has no such CPUs and no observer of locks.
#include <pthread.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "base/counters.h"
#include "os/processor.h"
#include "process/fork.h"
#include "process/heap.h"
#include "process/release.h"
#include "process/threads/scaling/rows.h"
#include "stats/stats.h"

namespace tcmalloc::scaling {
namespace {

constexpr const char* kRankNames[kRanks] = {"init",          "registry",    "shards",     "shard",
                                            "holes",         "page_heap",   "metadata",   "break",
                                            "mapped_ranges", "file_memory", "callbacks",  "samples",
                                            "guarded",       "profile",     "free_queue", "leaks"};

struct Load {
  const Row* row;
  uint64_t processors;
  uint64_t nodes;
  uint64_t threads;
  uint64_t rounds;
  uint64_t seed;
  bool moves;
};

Load load;

int FakeCpu() { return this_log == nullptr ? 0 : this_log->cpu; }
constexpr FakeProcessor kFake = {.cpu = &FakeCpu};

double Now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

[[noreturn]] void Fail(const char* message) {
  fprintf(stderr, "fake_processors: %s\n", message);
  exit(1);
}

struct Threads {
  pthread_barrier_t barrier;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::unique_ptr<ThreadLog>> logs;
  bool records = false;
};
Threads* all = nullptr;

void PutOnCpu(ThreadLog* log, uint64_t cpu) {
  log->cpu = static_cast<int>(cpu);
  // CPUs of a node have consecutive numbers.
  log->node = static_cast<int>(cpu * load.nodes / load.processors);
}

void* ThreadMain(void* argument) {
  const size_t t = reinterpret_cast<size_t>(argument);
  ThreadLog* const log = all->logs[t].get();
  Worker* const worker = all->workers[t].get();
  Worker* const next = all->workers[(t + 1) % load.threads].get();
  bench::Random moves(load.seed * 1'000'003 + t);
  PutOnCpu(log, t % load.processors);
  this_log = log;
  worker->Begin();
  const uint64_t warm = load.rounds / 4 * 2;  // even, since kFill takes two rounds
  for (uint64_t round = 0; round < warm + load.rounds; ++round) {
    pthread_barrier_wait(&all->barrier);
    if (round == warm) {
      log->Clear();
      log->records = all->records;
    }
    if (load.moves) PutOnCpu(log, moves.Below(load.processors));
    worker->Round(round, next);
  }
  this_log = nullptr;
  pthread_barrier_wait(&all->barrier);
  // The main thread looks at the heap.
  pthread_barrier_wait(&all->barrier);
  return nullptr;
}

using Steps = std::array<uint64_t, static_cast<size_t>(Step::kCount)>;
constexpr const char* kStepNames[] = {"shard_searched", "shard_visited", "home_visited",
                                      "cache_visited", "shard_considered"};

Steps StepsNow() {
  Steps steps;
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = step_counts[i].load();
  return steps;
}

void PrintSteps(const char* name, const Steps& before, double seconds) {
  printf("\"%s\": {\"us\": %.0f", name, seconds * 1e6);
  const Steps now = StepsNow();
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] != before[i]) printf(", \"%s\": %" PRIu64, kStepNames[i], now[i] - before[i]);
  }
  printf("}");
}

template <typename F>
void Measure(const char* name, F operation) {
  const Steps before = StepsNow();
  const double start = Now();
  operation();
  const double end = Now();
  PrintSteps(name, before, end - start);
}

void PrintRanks() {
  printf("\"locks\": {");
  bool first = true;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    RankCounts sum;
    for (const auto& log : all->logs) {
      const RankCounts& counts = log->ranks[rank];
      sum.acquired += counts.acquired;
      sum.contended += counts.contended;
      sum.moved += counts.moved;
      sum.moved_node += counts.moved_node;
      sum.held_cycles += counts.held_cycles;
      sum.held_times += counts.held_times;
    }
    if (sum.acquired == 0) continue;
    printf("%s\"%s\": {\"rank\": %zu, \"acquired\": %" PRIu64 ", \"contended\": %" PRIu64
           ", \"moved\": %" PRIu64 ", \"moved_node\": %" PRIu64 ", \"held_cycles\": %.0f}",
           first ? "" : ", ", kRankNames[rank], rank, sum.acquired, sum.contended, sum.moved,
           sum.moved_node,
           sum.held_times == 0
               ? 0.0
               : static_cast<double>(sum.held_cycles) / static_cast<double>(sum.held_times));
    first = false;
  }
  printf("}, ");
}

void PrintMemory(Heap& heap, uint64_t before_bytes) {
  const HeapStats stats = CollectStats(heap);
  size_t homes = 0;
  size_t most = 0;
  heap.central.shards().ForEach([&](Shard& shard) {
    ++homes;
    most = std::max(most, shard.home().kept.bytes() + shard.home().pool.bytes());
  });
  printf(
      "\"memory\": {\"in_use\": %zu, \"thread_caches\": %zu, \"central\": %zu, \"tails\": %zu, "
      "\"kept_spans\": %zu, \"page_heap_free\": %zu, \"released\": %zu, \"metadata\": %zu, "
      "\"retention_total\": %zu, \"retention_thread_caches\": %zu, \"retention_kept_spans\": %zu, "
      "\"shards\": %zu, \"most_kept_by_a_shard\": %zu, \"metadata_before\": %" PRIu64 "}, ",
      stats.in_use_bytes, stats.thread_cache_bytes, stats.central_bytes, stats.span_tail_bytes,
      stats.kept_span_bytes, stats.page_heap_free_bytes, stats.released_bytes, stats.metadata_bytes,
      stats.retention.total, stats.retention.thread_caches, stats.retention.kept_spans, homes, most,
      before_bytes);
}

void WriteLog(const char* path) {
  FILE* const file = fopen(path, "wb");
  if (file == nullptr) Fail("cannot create the log");
  for (const auto& log : all->logs) {
    const uint32_t n = static_cast<uint32_t>(log->events.size());
    fwrite(&n, sizeof(n), 1, file);
    fwrite(log->events.data(), sizeof(Event), n, file);
  }
  if (fclose(file) != 0) Fail("cannot write the log");
}

void Run(const char* log_path) {
  EnsureHeap();
  Heap& heap = GlobalHeap();
  fake_processor.store(&kFake);
  // Behaves like a program whose threads were created through the library, which has the background
  // thread.
  heap.page_heap.hints().unattended.Set(false);
  SpinLock::SetObserver(&kObserver);
  const uint64_t metadata_before = CollectStats(heap).metadata_bytes;
  Threads threads;
  all = &threads;
  threads.records = log_path != nullptr;
  pthread_barrier_init(&threads.barrier, nullptr, static_cast<unsigned>(load.threads) + 1);
  for (size_t t = 0; t < load.threads; ++t) {
    threads.logs.push_back(std::make_unique<ThreadLog>());
    threads.workers.push_back(
        std::make_unique<Worker>(*load.row, load.seed * 7919 + t, threads.logs[t].get()));
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  std::vector<pthread_t> ids(load.threads);
  const Steps at_start = StepsNow();
  const double began = Now();
  const uint64_t first_cycle = __rdtsc();
  for (size_t t = 0; t < load.threads; ++t) {
    if (pthread_create(&ids[t], &attributes, &ThreadMain, reinterpret_cast<void*>(t)) != 0) {
      Fail("cannot create a thread");
    }
  }
  const uint64_t warm = load.rounds / 4 * 2;
  Steps warmed{};
  for (uint64_t round = 0; round < warm + load.rounds; ++round) {
    if (round == warm) warmed = StepsNow();
    pthread_barrier_wait(&threads.barrier);
  }
  pthread_barrier_wait(&threads.barrier);
  const Steps ended = StepsNow();
  const uint64_t cycles = __rdtsc() - first_cycle;
  const double seconds = Now() - began;
  uint64_t operations = 0;
  for (const auto& log : threads.logs) operations += log->operations;
  printf("{\"row\": \"%s\", \"processors\": %" PRIu64 ", \"nodes\": %" PRIu64
         ", \"threads\": %" PRIu64 ", \"seed\": %" PRIu64
         ", \"moves\": %s, \"operations\": %" PRIu64 ", \"cycles_per_ns\": %.3f, ",
         load.row->name.data(), load.processors, load.nodes, load.threads, load.seed,
         load.moves ? "true" : "false", operations, static_cast<double>(cycles) / seconds / 1e9);
  PrintRanks();
  PrintMemory(heap, metadata_before);
  printf("\"steps\": {\"threads_start\": %" PRIu64 ", \"churn\": {",
         warmed[static_cast<size_t>(Step::kShardConsidered)] -
             at_start[static_cast<size_t>(Step::kShardConsidered)]);
  for (size_t i = 0; i < ended.size(); ++i) {
    printf("%s\"%s\": %" PRIu64, i == 0 ? "" : ", ", kStepNames[i], ended[i] - warmed[i]);
  }
  printf("}, ");
  Measure("fork", [] {
    HoldHeap();
    ReleaseHeap();
  });
  printf(", ");
  Measure("statistics", [&] { static_cast<void>(CollectStats(heap)); });
  printf(", ");
  Measure("flush", [&] { heap.registry.FlushAll(nullptr); });
  printf(", ");
  Measure("trim", [&] { Trim(heap, 0); });
  printf("}}\n");
  if (log_path != nullptr) WriteLog(log_path);
  pthread_barrier_wait(&threads.barrier);
  for (const pthread_t id : ids) pthread_join(id, nullptr);
}

uint64_t Number(const char* text, uint64_t least, uint64_t most) {
  char* end = nullptr;
  const uint64_t n = strtoull(text, &end, 10);
  if (*text == 0 || *end != 0 || n < least || n > most) Fail("an argument is out of its range");
  return n;
}

int Main(int argc, char** argv) {
  if (!kDebugBuild) {
    printf("SKIP: release builds cannot have fake CPUs\n");
    return 77;
  }
  if (argc < 8) Fail("ROW PROCESSORS NODES THREADS ROUNDS SEED pinned|moving [LOG]");
  for (const Row& row : kRows) {
    if (row.name == argv[1]) load.row = &row;
  }
  if (load.row == nullptr) Fail("no such row");
  load.processors = Number(argv[2], 1, 1024);
  load.nodes = Number(argv[3], 1, load.processors);
  load.threads = Number(argv[4], 1, 4096);
  load.rounds = Number(argv[5], 4, 1'000'000);
  load.seed = Number(argv[6], 0, UINT32_MAX);
  load.moves = strcmp(argv[7], "moving") == 0;
  Run(argc > 8 ? argv[8] : nullptr);
  return 0;
}

}  // namespace
}  // namespace tcmalloc::scaling

int main(int argc, char** argv) { return tcmalloc::scaling::Main(argc, argv); }
