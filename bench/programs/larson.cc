// SPDX-License-Identifier: BSD-3-Clause

// larson, larson-sized: a model of a server, after Larson and Krishnan ("Memory Allocation for
// Long-Running Server Applications", 1998). Each thread has an array of objects of random sizes and
// replaces random ones. After ROUNDS times as many replacements as it has objects it starts a
// successor, which inherits the array, and ends: objects are freed by other threads than allocated
// them. Runs for a fixed time and counts replacements.
//
// Objects come from operator new and are freed by operator delete, in larson-sized with their size.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

#ifndef TCMALLOC_BENCH_SIZED
#error "to be compiled with TCMALLOC_BENCH_SIZED as true or false"
#endif

namespace tcmalloc::bench {
namespace {

constexpr bool kSized = TCMALLOC_BENCH_SIZED;

struct Load {
  uint64_t smallest;
  uint64_t largest;
  uint64_t objects;
  uint64_t rounds;
};

class Server;

// A sequence of threads, each the successor of the previous one.
struct alignas(64) Line {
  Server* server;
  Object* objects;
  uint64_t random_state;
  uint32_t marks;
  uint64_t replacements;
  bool has_predecessor;
  pthread_t predecessor;
};

Object NewObject(const Load& load, Line* line, Random* random) {
  const uint32_t size = random->FastBetween(load.smallest, load.largest);
  const Object object = {.memory = static_cast<unsigned char*>(::operator new(size)),
                         .size = size,
                         .mark = ++line->marks};
  object.MarkFront();
  return object;
}

void Delete(const Object& object) {
  if constexpr (kSized) {
    ::operator delete(object.memory, object.size);
  } else {
    ::operator delete(object.memory);
  }
}

class Server {
 public:
  Server(const Load& load, uint64_t threads, uint64_t seed)
      : load_(load), lines_(threads), objects_(threads * load.objects) {
    Random random(seed);
    for (Line& line : lines_) {
      line.server = this;
      line.objects = &objects_[static_cast<size_t>(&line - lines_.begin()) * load.objects];
      line.random_state = random.Next();
    }
    // The main thread allocates the objects of the first threads, in random order of the arrays.
    MappedArray<uint32_t> order(objects_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
    random.Shuffle(order.elements());
    for (const uint32_t i : order)
      objects_[i] = NewObject(load, &lines_[i / load.objects], &random);
  }

  void Run(double seconds) {
    for (Line& line : lines_) Start(&line);
    timespec rest = {.tv_sec = static_cast<time_t>(seconds), .tv_nsec = 0};
    rest.tv_nsec = static_cast<long>((seconds - static_cast<double>(rest.tv_sec)) * 1e9);
    while (nanosleep(&rest, &rest) != 0) {
    }
    stop_.store(true, std::memory_order_relaxed);
    {
      std::unique_lock lock(mutex_);
      all_finished_.wait(lock, [this] { return finished_ == lines_.size(); });
    }
    for (const Line& line : lines_) JoinThread(line.predecessor);
  }

  uint64_t Replacements() {
    uint64_t sum = 0;
    for (const Line& line : lines_) sum += line.replacements;
    return sum;
  }

  void Finish() {
    for (const Object& object : objects_) {
      object.CheckFront();
      Delete(object);
    }
  }

 private:
  static void* ThreadMain(void* argument) {
    auto* const line = static_cast<Line*>(argument);
    if (line->has_predecessor) JoinThread(line->predecessor);
    line->server->Serve(line);
    return nullptr;
  }

  void Start(Line* line) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, &ThreadMain, line) != 0) Fail("cannot create a thread");
  }

  void Serve(Line* line) {
    Random random(line->random_state);
    uint64_t replaced = 0;
    // Does at least one round: on a busy machine the time may already be over.
    for (uint64_t round = 0;
         round == 0 || (round < load_.rounds && !stop_.load(std::memory_order_relaxed)); ++round) {
      for (uint64_t i = 0; i < load_.objects; ++i) {
        Object* const victim = &line->objects[random.FastBelow(load_.objects)];
        Delete(*victim);
        *victim = NewObject(load_, line, &random);
      }
      replaced += load_.objects;
    }
    line->replacements += replaced;
    line->random_state = random.Next();
    line->predecessor = pthread_self();
    line->has_predecessor = true;
    if (!stop_.load(std::memory_order_relaxed)) {
      Start(line);
      return;
    }
    const std::lock_guard lock(mutex_);
    ++finished_;
    all_finished_.notify_one();
  }

  const Load load_;
  // A line belongs to its running thread.
  MappedArray<Line> lines_;
  MappedArray<Object> objects_;
  // Written once by the main thread. Relaxed: it only says that the time is over.
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable all_finished_;
  size_t finished_ = 0;  // guarded by mutex_
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "A server whose threads replace random objects and die.");
  const double seconds = arguments.Seconds("SECONDS", 1);
  Load load;
  load.smallest = arguments.Number("SMALLEST", 8, 1, 1 << 30);
  load.largest = arguments.Number("LARGEST", 1000, load.smallest, 1 << 30);
  load.objects = arguments.Number("OBJECTS", 5000, 1, 100'000'000);
  load.rounds = arguments.Number("ROUNDS", 100, 1, 100'000'000);
  const uint64_t seed = arguments.Number("SEED", 4141, 0, UINT64_MAX);
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  arguments.End();

  Server server(load, threads, seed);
  MeasuredPart part;
  server.Run(seconds);
  part.End();
  server.Finish();
  Report report(kSized ? "larson-sized" : "larson", part);
  report.Value("ops_per_s", static_cast<double>(server.Replacements()) / part.wall_s(), "1/s",
               Better::kHigher);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
