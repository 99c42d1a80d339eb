// SPDX-License-Identifier: BSD-3-Clause
// Checks for leaks that a running program makes itself (tcmalloc/leak_checker.h).
//
//   leak_checks whole      a check of the whole program, without records
//   leak_checks since      a part of the program's life, without records
//   leak_checks recorded   as whole and since, with records, which are started and stopped
//   leak_checks annotated  annotations by the program; tests/compat/leak_client.cc has more
//   leak_checks moving N   N checks while threads grow large objects
//   leak_checks threads N plain|recorded
//                          N checks in a row while 8 threads allocate, start and end
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "../check.h"
#include "no_stray_pointers.h"
#include "tcmalloc/leak_checker.h"

using tcmalloc::CheckLeaks;
using tcmalloc::LeakChecker;
using tcmalloc::LeakReport;

namespace {

constexpr int kHidden = 64;
volatile uintptr_t hidden[kHidden];
constexpr size_t kBytes = 100;
constexpr size_t kObjectBytes = 112;  // the size of a size class

extern "C" __attribute__((noinline)) void LoseObjects(int n) {
  for (int i = 0; i < n; ++i) {
    void* const object = Opaque(malloc(kBytes));
    memset(object, 0, kBytes);
    memcpy(object, "secret!", 8);
    hidden[i] = ~reinterpret_cast<uintptr_t>(object);
  }
}

void Lose(int n) {
  Elsewhere([n] { LoseObjects(n); });
}

void FreeLost(int n) {
  for (int i = 0; i < n; ++i) {
    free(reinterpret_cast<void*>(~hidden[i]));
    hidden[i] = 0;
  }
}

std::vector<tcmalloc_leak_site> SitesOf(const LeakReport& report) {
  std::vector<tcmalloc_leak_site> sites;
  report.Iterate([&](const LeakReport::Site& site) { sites.push_back(site); });
  return sites;
}

void CheckWhole() {
  LeakReport report = CheckLeaks();
  CHECK(report && report.GetOutcome() == LeakReport::Outcome::kDone);
  CHECK(report.NoLeaks());
  Lose(5);
  report = CheckLeaks();
  const LeakReport::Info info = report.GetInfo();
  CHECK(!report.NoLeaks() && info.objects == 5 && info.bytes == 5 * kObjectBytes);
  CHECK(info.direct_objects == 5 && info.direct_bytes == info.bytes && info.recorded == 0);
  CHECK(info.num_sites == 1 && info.objects_in_use > 5 && info.bytes_in_use > info.bytes);
  CHECK(info.pause_ns > 0 && info.num_threads == 1 && info.error == 0);
  // Sites have pointers to objects, which the next check must not find.
  Elsewhere([&report] {
    const std::vector<tcmalloc_leak_site> sites = SitesOf(report);
    CHECK(sites.size() == 1 && sites[0].depth == 0 && sites[0].object_size == kObjectBytes);
    CHECK(sites[0].objects == 5 && sites[0].num_words == 0);
    const uintptr_t example = ~reinterpret_cast<uintptr_t>(sites[0].example);
    CHECK(std::find(hidden, hidden + 5, example) != hidden + 5);
  });
  // Contents of objects are shown only on request.
  report = CheckLeaks(TCMALLOC_LEAKS_SHOW_CONTENTS);
  Elsewhere([&report] {
    const std::vector<tcmalloc_leak_site> sites = SitesOf(report);
    CHECK(sites.size() == 1 && sites[0].num_words == 4);
    CHECK(memcmp(sites[0].words, "secret!", 8) == 0);
  });
  report = CheckLeaks(TCMALLOC_LEAKS_BY_OBJECT);
  Elsewhere([&report] {
    const std::vector<tcmalloc_leak_site> sites = SitesOf(report);
    CHECK(sites.size() == 5);
    for (const tcmalloc_leak_site& site : sites) {
      CHECK(site.objects == 1 && site.depth == 1 && site.stack[0] == site.example);
    }
  });
  FreeLost(5);
  CHECK(CheckLeaks().NoLeaks());
}

void CheckSince() {
  Lose(3);
  {
    const LeakChecker checker;
    CHECK(checker && checker.NoLeaks());
    Elsewhere([] {
      for (int i = 10; i < 14; ++i) hidden[i] = ~reinterpret_cast<uintptr_t>(Opaque(malloc(500)));
    });
    for (int i = 0; i < 3; ++i) {
      const LeakReport report = checker.Check();
      CHECK(report.Objects() == 4 && report.Bytes() == 4 * 512);
    }
    CHECK(CheckLeaks().Objects() == 7);
    for (int i = 10; i < 14; ++i) free(reinterpret_cast<void*>(~hidden[i]));
    CHECK(checker.NoLeaks());
  }
  FreeLost(3);
}

void CheckRecorded() {
  Lose(2);
  CHECK(LeakChecker::StartRecording() && LeakChecker::StartRecording());
  const LeakChecker first;
  Elsewhere([] {
    for (int i = 50; i < 53; ++i) hidden[i] = ~reinterpret_cast<uintptr_t>(Opaque(malloc(300)));
  });
  const LeakChecker second;
  CHECK(second.NoLeaks());
  LeakReport report = first.Check();
  CHECK(report.Objects() == 3 && report.Bytes() == 900);
  // The vector's memory may be reused for a leaked object: no word of this stack may point there.
  const auto depth_of_only_site = [&report] {
    size_t depth = 0;
    Elsewhere([&report, &depth] {
      const std::vector<tcmalloc_leak_site> sites = SitesOf(report);
      CHECK(sites.size() == 1 && sites[0].object_size == 0);
      depth = sites[0].depth;
    });
    return depth;
  };
  const size_t depth = depth_of_only_site();
  CHECK(depth > 1);
  // The new object reuses the memory of an earlier one.
  Elsewhere([] {
    FreeLost(2);
    LoseObjects(40);
  });
  CHECK(second.Check().Objects() == 40);
  CHECK(first.Check().Objects() == 43);
  // The report does not change.
  CHECK(report.Objects() == 3 && depth_of_only_site() == depth);
  FreeLost(40);
  for (int i = 50; i < 53; ++i) free(reinterpret_cast<void*>(~hidden[i]));
  CHECK(first.NoLeaks() && second.NoLeaks());
  // A check without records says so, and not "no leaks".
  LeakChecker::StopRecording();
  report = first.Check();
  CHECK(!report.NoLeaks() && report.GetOutcome() == LeakReport::Outcome::kImpossible);
  CHECK(LeakChecker::StartRecording());
  CHECK(!first.NoLeaks());
  const LeakChecker third;
  CHECK(third.NoLeaks());
  LeakChecker::StopRecording();
  CHECK(CheckLeaks().NoLeaks());
}

void CheckAnnotated() {
  // Only a hidden pointer leads to this memory. Nothing else is within 64 KiB of it: a number of 16
  // bits stored over a part of a pointer leaves a nearby address on a stack.
  static const size_t page = static_cast<size_t>(getpagesize());
  constexpr size_t kAround = size_t{64} << 10;
  void* const around =
      mmap(nullptr, 2 * kAround + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(around != MAP_FAILED);
  hidden[20] = ~(reinterpret_cast<uintptr_t>(around) + kAround);
  static const auto memory = [] { return reinterpret_cast<void**>(~hidden[20]); };
  CHECK(mprotect(memory(), page, PROT_READ | PROT_WRITE) == 0);
  // No word of this function may point there, so other threads do all the work.
  const struct {
    void (*run)();
    uint64_t leaked;  // afterwards
  } steps[] = {
      {[] { memory()[7] = Opaque(malloc(kBytes)); }, 1},
      {[] { CHECK(LeakChecker::RegisterRoots(memory(), page)); }, 0},
      {[] {
         CHECK(LeakChecker::UnregisterRoots(memory(), page));
         CHECK(!LeakChecker::UnregisterRoots(memory(), page));
         CHECK(!LeakChecker::RegisterRoots(nullptr, 0));
       },
       1},
      // Without records the report cannot know which thread was disabled.
      {[] {
         const LeakChecker::Disabler disabler;
         hidden[22] = ~reinterpret_cast<uintptr_t>(Opaque(malloc(kBytes)));
       },
       2},
  };
  for (const auto& step : steps) {
    Elsewhere(step.run);
    static uint64_t leaked;
    Elsewhere([] { leaked = CheckLeaks().Objects(); });
    CHECK(leaked == step.leaked);
  }
}

// --- Large objects that move ---------------------------------------------------------------------

std::atomic<bool> ending{false};
std::atomic<uint64_t> grown{0};

// Grows an object by moving it. Its pointers to many other objects are spread over all of it.
void* Grow(void*) {
  constexpr size_t kMiB = size_t{1} << 20;
  constexpr size_t kEvery = 4096 / sizeof(void*);
  while (!ending.load(std::memory_order_relaxed)) {
    size_t mib = 2;
    auto** words = static_cast<void**>(malloc(mib * kMiB));
    memset(static_cast<void*>(words), 0, mib * kMiB);
    for (size_t i = 0; i < mib * kMiB / sizeof(void*); i += kEvery) words[i] = malloc(50);
    for (; mib < 12; ++mib) {
      words = static_cast<void**>(realloc(static_cast<void*>(words), (mib + 1) * kMiB));
      memset(static_cast<void*>(words + mib * kMiB / sizeof(void*)), 0, kMiB);
      grown.fetch_add(1, std::memory_order_relaxed);
    }
    for (size_t i = 0; i < 2 * kMiB / sizeof(void*); i += kEvery) free(words[i]);
    free(static_cast<void*>(words));
  }
  return nullptr;
}

void CheckMoving(int checks) {
  pthread_t threads[4];
  for (pthread_t& thread : threads) thread = StartThread(&Grow, nullptr);
  for (int i = 0; i < checks; ++i) {
    const LeakReport report = CheckLeaks();
    CHECK(report.GetOutcome() == LeakReport::Outcome::kDone);
    if (!report.NoLeaks()) report.WriteTo(STDERR_FILENO);
    CHECK(report.NoLeaks());
  }
  ending = true;
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  printf("%d checks, objects grew %llu times\n", checks,
         static_cast<unsigned long long>(grown.load()));
  CHECK(grown > 0);
}

// --- While other threads allocate ----------------------------------------------------------------

std::atomic<bool> stopping{false};
std::atomic<uint64_t> operations{0};

struct Item {
  Item* next;
  size_t number;
};

// Allocates objects that point to objects, in and out of caches; all of them are held at any
// moment.
void Allocate(unsigned seed) {
  std::vector<Item*> lists(16);
  uint32_t random = seed * 2654435761u + 1;
  for (int i = 0; i < 3000 && !stopping.load(std::memory_order_relaxed); ++i) {
    random = random * 1664525u + 1013904223u;
    Item*& list = lists[(random >> 8) % lists.size()];
    if ((random >> 16) % 3 != 0 || list == nullptr) {
      auto* const item = static_cast<Item*>(malloc(sizeof(Item) + (random >> 20) % 600));
      item->next = list;
      item->number = random;
      list = item;
    } else {
      Item* const item = list;
      list = item->next;
      free(item);
    }
    if (i % 500 == 0) free(Opaque(malloc(300000 + (random >> 12) % 100000)));
    operations.fetch_add(1, std::memory_order_relaxed);
  }
  for (Item* item : lists) {
    while (item != nullptr) {
      Item* const next = item->next;
      free(item);
      item = next;
    }
  }
}

void* Threads(void* seed) {
  unsigned number = static_cast<unsigned>(reinterpret_cast<uintptr_t>(seed)) * 1000;
  while (!stopping.load(std::memory_order_relaxed)) {
    const unsigned own = ++number;
    std::thread([own] { Allocate(own); }).join();
  }
  return nullptr;
}

// The first object of its span, as a rule. The address of a span may stay in a vector register that
// memmove used, for as long as the main thread moves nothing else, and new threads inherit it. A
// leaked object at that address is not reported.
void* first_of_span;

void CheckAmongThreads(int checks, bool recorded) {
  constexpr int kLost = 7;
  Elsewhere([] {
    first_of_span = malloc(kBytes);
    LoseObjects(kLost);
  });
  const uint64_t bytes = recorded ? kBytes : kObjectBytes;
  pthread_t threads[8];
  for (uintptr_t i = 0; i < 8; ++i) threads[i] = StartThread(&Threads, reinterpret_cast<void*>(i));
  int most_threads = 0;
  int complete = 0;
  int i = 0;
  // How many checks are complete, and what the threads do meanwhile, depends on scheduling. More
  // checks follow until there was enough of each.
  for (; i < checks || complete < checks / 4 || most_threads <= 8 || operations <= 1000; ++i) {
    const LeakReport report = CheckLeaks();
    const LeakReport::Info info = report.GetInfo();
    CHECK(report.GetOutcome() == LeakReport::Outcome::kDone);
    // A leaked object may count as one that a thread was allocating when it was stopped, or be held
    // by words that its function has left on a stack that another thread has got since. An object
    // that is not leaked is never reported.
    if (info.objects == kLost) ++complete;
    const bool is_right = info.objects <= kLost && info.bytes == info.objects * bytes;
    if (!is_right) report.WriteTo(STDERR_FILENO);
    CHECK(is_right);
    if (info.num_threads > most_threads) most_threads = info.num_threads;
    if (i % 10 == 0) usleep(1000);
    if (i == 20 * checks) {
      fprintf(stderr, "after %d checks: %d complete, %d threads at most, %llu operations\n", i,
              complete, most_threads, static_cast<unsigned long long>(operations));
      report.WriteTo(STDERR_FILENO);
      abort();
    }
  }
  stopping = true;
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  CHECK(CheckLeaks().Objects() == kLost);
  FreeLost(kLost);
  free(first_of_span);
  CHECK(CheckLeaks().NoLeaks());
  printf("%d checks, %d of them complete, %d threads at most, %llu operations\n", i, complete,
         most_threads, static_cast<unsigned long long>(operations));
}

}  // namespace

int main(int argc, char** argv) {
  RequireLibraryUnderTest();
  CHECK(argc >= 2);
  const std::string what = argv[1];
  if (what == "whole") {
    CheckWhole();
  } else if (what == "since") {
    CheckSince();
  } else if (what == "recorded") {
    CheckRecorded();
  } else if (what == "annotated") {
    CheckAnnotated();
  } else if (what == "moving") {
    CHECK(argc == 3);
    CheckMoving(atoi(argv[2]));
  } else if (what == "threads") {
    CHECK(argc == 4);
    const bool recorded = strcmp(argv[3], "recorded") == 0;
    if (recorded) CHECK(LeakChecker::StartRecording());
    CheckAmongThreads(atoi(argv[2]), recorded);
  } else {
    return 2;
  }
  return 0;
}
