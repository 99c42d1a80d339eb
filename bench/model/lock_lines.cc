// SPDX-License-Identifier: BSD-3-Clause
//
// lock_lines: measures how long a lock is held if another CPU had its cache lines last, with the
// lock on the same line as the data or on another one. contention.py counts the lines by these
// figures.
//
// Two threads, on CPUs 0 and 1, take turns. Each takes the lock, changes a word of the data and a
// word of a record on a third line, and frees the lock. Prints two medians in cycles of the time
// stamp counter: the time from before the lock is taken to after it is free, and the time from
// after it is taken to after it is free.
#include <sched.h>
#include <x86intrin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

enum class Layout : uint8_t { kOneLine, kApart, kApartAndPrefetched, kApartAndRead };

constexpr int kTurns = 200'000;  // of each thread

// Two lines, since the CPU may fetch lines in pairs.
struct alignas(128) Line {
  std::atomic<uint32_t> lock{0};
  volatile uint64_t word = 0;
};

struct Lines {
  std::atomic<uint32_t> turn{0};
  Line lock;
  Line data;
  Line record;
};

struct Times {
  std::vector<uint64_t> whole;
  std::vector<uint64_t> held;
};

uint64_t Now() {
  unsigned processor;
  const uint64_t now = __rdtscp(&processor);
  _mm_lfence();
  return now;
}

template <Layout kLayout>
void TakeTurns(uint32_t cpu, Lines& lines, Times& times) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) perror("sched_setaffinity");
  Line& data = kLayout == Layout::kOneLine ? lines.lock : lines.data;
  for (int i = 0; i < kTurns; ++i) {
    while (lines.turn.load(std::memory_order_acquire) % 2 != cpu) _mm_pause();
    const uint64_t start = Now();
    if constexpr (kLayout == Layout::kApartAndPrefetched) __builtin_prefetch(&data, 1);
    if constexpr (kLayout == Layout::kApartAndRead) static_cast<void>(data.word);
    uint32_t expected = 0;
    while (!lines.lock.lock.compare_exchange_strong(expected, 1, std::memory_order_acquire)) {
      expected = 0;
    }
    const uint64_t locked = Now();
    data.word = data.word + 1;
    lines.record.word = lines.record.word + 1;
    lines.lock.lock.exchange(0, std::memory_order_release);
    const uint64_t end = Now();
    times.whole.push_back(end - start);
    times.held.push_back(end - locked);
    lines.turn.fetch_add(1, std::memory_order_release);
  }
}

uint64_t Median(std::vector<uint64_t>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

template <Layout kLayout>
void Measure(const char* name) {
  Lines lines;
  Times times[2];
  std::thread other([&] { TakeTurns<kLayout>(1, lines, times[1]); });
  std::thread([&] { TakeTurns<kLayout>(0, lines, times[0]); }).join();
  other.join();
  printf("%-36s %6ju %6ju\n", name, uintmax_t{Median(&times[0].whole)},
         uintmax_t{Median(&times[0].held)});
}

}  // namespace

int main() {
  printf("%-36s %6s %6s\n", "cycles", "whole", "held");
  Measure<Layout::kOneLine>("lock and data on one line");
  Measure<Layout::kApart>("apart");
  Measure<Layout::kApartAndPrefetched>("apart, data prefetched");
  Measure<Layout::kApartAndRead>("apart, data read before the lock");
}
