// SPDX-License-Identifier: BSD-3-Clause
// LockLog records what the locks of the library did while a program ran, by thread. It counts
// acquisitions, contended ones, and those of a lock that another (fake) CPU had last. On request it
// also records each acquisition and each release with the number of operations that the thread had
// done, for bench/model/contention.py.
#pragma once

#include <x86intrin.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "os/spinlock.h"

namespace tcmalloc::scaling {

inline constexpr size_t kRanks = static_cast<size_t>(LockRank::kCount);

struct Event {
  enum Kind : uint8_t { kRoundEnds, kAcquired, kReleased, kTried };
  uint32_t operation;  // how many operations the thread did before
  uint16_t lock;       // its number in the log
  uint8_t rank;
  Kind kind;
};
static_assert(sizeof(Event) == 8);

struct RankCounts {
  uint64_t acquired = 0;
  uint64_t contended = 0;
  uint64_t moved = 0;       // another CPU had the lock last
  uint64_t moved_node = 0;  // a CPU of another node had it last
  uint64_t held_cycles = 0;
  uint64_t held_times = 0;
};

// The events and counts of one thread.
struct ThreadLog {
  int cpu = 0;
  int node = 0;
  bool records = false;
  bool waits = false;
  uint64_t operations = 0;
  size_t depth = 0;
  uint64_t began[8] = {};
  RankCounts ranks[kRanks];
  std::vector<Event> events;

  void Clear() {
    operations = 0;
    for (RankCounts& counts : ranks) counts = RankCounts();
    events.clear();
  }
};

inline thread_local ThreadLog* this_log = nullptr;

// A lock's number, and which CPU had it last.
struct LockEntry {
  std::atomic<const SpinLock*> lock{nullptr};
  // Read and written with the lock held. The CPU and its node, plus 1; 0: none.
  int cpu = 0;
  int node = 0;
};
inline constexpr size_t kLockEntries = size_t{1} << 15;
inline LockEntry lock_entries[kLockEntries];

inline size_t NumberOf(const SpinLock& lock) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(&lock);
  size_t i = (address >> 3) * 0x9e3779b97f4a7c15 >> 49;
  for (;; i = (i + 1) % kLockEntries) {
    const SpinLock* known = lock_entries[i].lock.load(std::memory_order_acquire);
    if (known == &lock) return i;
    if (known == nullptr &&
        (lock_entries[i].lock.compare_exchange_strong(known, &lock) || known == &lock)) {
      return i;
    }
  }
}

inline void Waits(const SpinLock&, LockRank) {
  if (this_log != nullptr) this_log->waits = true;
}

inline void Acquired(const SpinLock& lock, LockRank rank, bool tried) {
  ThreadLog* const log = this_log;
  if (log == nullptr) return;
  RankCounts& counts = log->ranks[static_cast<size_t>(rank)];
  ++counts.acquired;
  counts.contended += log->waits;
  log->waits = false;
  const size_t number = NumberOf(lock);
  LockEntry& entry = lock_entries[number];
  counts.moved += entry.cpu != 0 && entry.cpu != log->cpu + 1;
  counts.moved_node += entry.node != 0 && entry.node != log->node + 1;
  entry.cpu = log->cpu + 1;
  entry.node = log->node + 1;
  if (log->records) {
    log->events.push_back({static_cast<uint32_t>(log->operations), static_cast<uint16_t>(number),
                           static_cast<uint8_t>(rank), tried ? Event::kTried : Event::kAcquired});
  }
  if (log->depth < 8) log->began[log->depth] = __rdtsc();
  ++log->depth;
}

inline void Frees(const SpinLock& lock, LockRank rank) {
  ThreadLog* const log = this_log;
  if (log == nullptr || log->depth == 0) return;
  --log->depth;
  // Intervals in which the thread was interrupted do not count.
  const uint64_t cycles = log->depth < 8 ? __rdtsc() - log->began[log->depth] : 0;
  RankCounts& counts = log->ranks[static_cast<size_t>(rank)];
  if (cycles > 0 && cycles < 30'000) {
    counts.held_cycles += cycles;
    ++counts.held_times;
  }
  if (log->records) {
    log->events.push_back({static_cast<uint32_t>(log->operations),
                           static_cast<uint16_t>(NumberOf(lock)), static_cast<uint8_t>(rank),
                           Event::kReleased});
  }
}

inline constexpr SpinLock::Observer kObserver = {
    .waits = &Waits, .acquired = &Acquired, .frees = &Frees};

}  // namespace tcmalloc::scaling
