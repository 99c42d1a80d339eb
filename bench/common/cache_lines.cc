// SPDX-License-Identifier: BSD-3-Clause
#include "bench/common/cache_lines.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr uintptr_t kLineBytes = 64;

struct Load {
  uint64_t threads;
  uint64_t iterations;
  uint64_t size;
  uint64_t repetitions;  // per thread
  uint64_t returned;     // objects that other threads have freed before
};

// Writes and reads every byte `repetitions` times. volatile: each access goes to memory.
void WriteRepeatedly(void* object, uint64_t size, uint64_t repetitions) {
  auto* const bytes = static_cast<volatile unsigned char*>(object);
  for (uint64_t i = 0; i < repetitions; ++i) {
    for (uint64_t k = 0; k < size; ++k) {
      bytes[k] = static_cast<unsigned char>(i + k);
      if (bytes[k] != static_cast<unsigned char>(i + k)) FailCorrupt();
    }
  }
}

// The objects that the main thread hands out, one to each thread.
class HandedOver {
 public:
  HandedOver(bool any, const Load& load) : objects_(load.threads) {
    if (!any) return;
    for (void*& object : objects_) object = Allocate(load.size);
  }
  void FreeOne(size_t thread) { free(objects_[thread]); }

 private:
  MappedArray<void*> objects_;
};

void Time(const CacheLineProgram& program, const Load& load) {
  HandedOver handed_over(program.hand_over_first, load);
  MeasuredPart part;
  RunThreads(load.threads, [&](size_t thread) {
    handed_over.FreeOne(thread);
    for (uint64_t i = 0; i < load.iterations; ++i) {
      void* const object = Allocate(load.size);
      WriteRepeatedly(object, load.size, load.repetitions);
      free(object);
    }
  });
  part.End();
  ReportTime(program.name, part);
}

// One thread's object was on one line in `rounds` iterations, from `first` to `last`.
struct Stay {
  uintptr_t offset;  // the offset of the object's first byte on the line
  uint64_t first;
  uint64_t last;
  uint64_t rounds;
};

// Records which threads' objects lay on which cache line, in which iterations.
class LineOwners {
 public:
  void Add(uint64_t round, size_t thread, uintptr_t address, uint64_t size) {
    for (uintptr_t line = address / kLineBytes; line <= (address + size - 1) / kLineBytes; ++line) {
      const uintptr_t offset = line == address / kLineBytes ? address % kLineBytes : 0;
      Stay& stay =
          stays_[line].try_emplace({thread, offset}, Stay{offset, round, round, 0}).first->second;
      stay.last = round;
      ++stay.rounds;
      on_line_[line].insert(thread);
    }
  }

  // Call this after all objects of one iteration were added.
  void EndRound() {
    bool shared = false;
    for (const auto& [line, threads] : on_line_) {
      most_threads_ = std::max(most_threads_, threads.size());
      if (threads.size() < 2) continue;
      shared = true;
      shared_lines_.insert(line);
    }
    rounds_with_sharing_ += shared ? 1 : 0;
    on_line_.clear();
  }

  void Print() const {
    printf("# cache line          thread  offset  iterations (first-last)\n");
    for (const auto& [line, stays] : stays_) {
      for (const auto& [key, stay] : stays) {
        printf("0x%016" PRIxPTR "  %6zu  %6" PRIuPTR "  %" PRIu64 " (%" PRIu64 "-%" PRIu64 ")%s\n",
               line * kLineBytes, key.first, stay.offset, stay.rounds, stay.first, stay.last,
               shared_lines_.contains(line) ? "  shared" : "");
      }
    }
  }

  size_t lines() const { return stays_.size(); }
  size_t shared_lines() const { return shared_lines_.size(); }
  size_t most_threads() const { return most_threads_; }
  uint64_t rounds_with_sharing() const { return rounds_with_sharing_; }

 private:
  // Indexed by line, then by thread and offset.
  std::map<uintptr_t, std::map<std::pair<size_t, uintptr_t>, Stay>> stays_;
  std::map<uintptr_t, std::set<size_t>> on_line_;  // the current iteration's
  std::set<uintptr_t> shared_lines_;
  size_t most_threads_ = 0;
  uint64_t rounds_with_sharing_ = 0;
};

// Threads that end before the others start allocate `load.returned` objects and free most of them,
// their own and those of others, in shuffled order, so that the allocator's free objects are in
// random order. One object in sixteen stays, so that some lines are only partly free.
void ReturnShuffled(const Load& load) {
  constexpr uint64_t kSeed = 105;
  MappedArray<void*> objects(load.returned);
  const auto in_slices = [&load](auto&& use) {
    RunThreads(load.threads, [&](size_t thread) {
      const uint64_t end = load.returned * (thread + 1) / load.threads;
      for (uint64_t i = load.returned * thread / load.threads; i < end; ++i) use(i);
    });
  };
  in_slices([&](uint64_t i) { objects[i] = Allocate(load.size); });
  Random(kSeed).Shuffle(objects.elements());
  in_slices([&](uint64_t i) {
    if (i % 16 != 0) free(objects[i]);
  });
}

void ShowLines(const CacheLineProgram& program, const Load& load) {
  if (load.returned > 0) ReturnShuffled(load);
  MappedArray<uintptr_t> addresses(load.iterations * load.threads);
  HandedOver handed_over(program.hand_over_first, load);
  Barrier barrier(load.threads);
  MeasuredPart part;
  RunThreads(load.threads, [&](size_t thread) {
    handed_over.FreeOne(thread);
    for (uint64_t i = 0; i < load.iterations; ++i) {
      void* const object = Allocate(load.size);
      addresses[i * load.threads + thread] = reinterpret_cast<uintptr_t>(object);
      barrier.Wait();
      WriteRepeatedly(object, load.size, load.repetitions);
      barrier.Wait();
      free(object);
    }
  });
  part.End();
  Report report(program.name, part);

  LineOwners owners;
  for (uint64_t i = 0; i < load.iterations; ++i) {
    for (size_t thread = 0; thread < load.threads; ++thread) {
      owners.Add(i, thread, addresses[i * load.threads + thread], load.size);
    }
    owners.EndRound();
  }
  owners.Print();
  const auto count = [&report](const char* name, uint64_t value) {
    report.Value(name, static_cast<double>(value), "1", Better::kLower);
  };
  count("shared_lines", owners.shared_lines());
  count("lines", owners.lines());
  count("iterations_with_sharing", owners.rounds_with_sharing());
  count("most_threads_on_a_line", owners.most_threads());
  report.Write();
}

}  // namespace

void CacheLineProgram::Main(int argc, char** argv) const {
  Arguments arguments(argc, argv, summary);
  const bool instrumented =
      arguments.Flag("--instrumented", "print which thread's objects lie on which cache line");
  Load load;
  load.returned = instrumented && arguments.Flag("--after-disorder",
                                                 "first other threads free a million objects in "
                                                 "shuffled order, and end")
                      ? 1'000'000
                      : 0;
  load.threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  load.iterations = arguments.Number("ITERATIONS", 1000, 1, 100'000'000);
  load.size = arguments.Number("SIZE", 1, 1, 1 << 20);
  const uint64_t repetitions = arguments.Number("REPETITIONS", 1'000'000, 1, uint64_t{1} << 40);
  // This hint of how many threads should run at once exists in other versions of the program, too.
  const uint64_t concurrency = arguments.Number("CONCURRENCY", load.threads, 1, kMostThreads);
  arguments.End();
  pthread_setconcurrency(static_cast<int>(concurrency));
  // The work is the same with any number of threads.
  load.repetitions = std::max<uint64_t>(repetitions / load.threads, 1);
  if (instrumented) {
    ShowLines(*this, load);
  } else {
    Time(*this, load);
  }
}

}  // namespace tcmalloc::bench
