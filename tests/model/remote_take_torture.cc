// SPDX-License-Identifier: BSD-3-Clause
// Takes caches from running threads as fast as it can, and looks for states that must never be
// seen.
//
//   remote_take_torture [--seconds N] [--owners N] [--least-takings N] [--without-membarrier]
//
// The protocol's own classes (ThreadSlot, Bins, Membarrier) guard a small cache: a bin of objects
// that are mere numbers, and words that show when two threads are inside at once or when one does
// not see what the other has done. Owners have short lives, so that slots and caches lie in memory
// that was another thread's before. At the end each object must be in exactly one place.
//
// It runs for the given seconds; without --seconds, until as many caches were taken as
// --least-takings says. Exit status 0 means that enough caches were taken and nothing was wrong.
// With --without-membarrier the taker has only a barrier of its own, and something must go wrong.
// The program runs until it sees a violation, for ever if --seconds is missing, and 0 means that it
// saw one. 77 means that this machine cannot show that.
//
// Objects are no pointers and each bin operation keeps its array's bounds, so that a violation does
// no damage. The words are plain, so that ThreadSanitizer reports accesses without order.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/intrusive.h"
#include "os/processor.h"
#include "os/spinlock.h"
#include "thread_cache/bins.h"
#include "thread_cache/thread_slot.h"

namespace tcmalloc {
namespace {

constexpr SizeClass kClass = static_cast<SizeClass>(1);
constexpr size_t kCapacity = 8;
constexpr size_t kBatch = 4;
constexpr size_t kHand = 8;
constexpr size_t kObjectsPerOwner = 12;
constexpr int kSectionsPerLife = 30'000;
constexpr int kSkipped = 77;

// The states that must not be seen.
enum Violation { kBothInside, kHalfDone, kSlotWritten, kBadTop, kObjectsLost, kViolations };
constexpr const char* kViolationNames[] = {"both inside", "half done work seen",
                                           "slot of another life written", "bin out of its array",
                                           "objects lost or doubled"};
std::atomic<uint64_t> violations[kViolations];

void Expect(bool condition, Violation kind) {
  if (!condition) violations[kind].fetch_add(1, std::memory_order_relaxed);
}

struct Cache {
  explicit Cache(ThreadSlot& owner_slot) : slot(owner_slot) {
    array[kCapacity + 1] = kFullMark;
    bins.tops[Index(kClass)].store(array, std::memory_order_relaxed);
  }

  ThreadSlot& slot;
  // Used only by the thread that is inside.
  Bins bins;
  BinSlot array[kCapacity + 2] = {};
  // The two words are equal when no thread is inside.
  volatile uint64_t first = 0;
  volatile uint64_t second = 0;
  volatile bool owner_inside = false;
  volatile bool taker_inside = false;
  // Set by a taker, cleared by the owner. A hint.
  std::atomic<bool> flush_requested{false};
  // Guarded by the registry's lock.
  ListNode<Cache> list_node;
};

// The time that a thread spends inside a cache.
class Visit {
 public:
  Visit(Cache& cache, volatile bool& mine, const volatile bool& others)
      : cache_(cache), mine_(mine), others_(others) {
    mine_ = true;
    Expect(!others_, kBothInside);
    const uint64_t first = cache_.first;
    Expect(first == cache_.second, kHalfDone);
    cache_.first = first + 1;
  }
  ~Visit() {
    cache_.second = cache_.first;
    Expect(!others_, kBothInside);
    mine_ = false;
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

 private:
  Cache& cache_;
  volatile bool& mine_;
  const volatile bool& others_;
};

struct Registry {
  SpinLock lock{LockRank::kRegistry};
  IntrusiveList<Cache> caches;
};
Registry registry;

struct Central {
  SpinLock lock{LockRank::kShard};
  std::vector<BinSlot> objects;
};
Central central;

void Insert(const BinSlot* objects, size_t n) {
  const SpinLockHolder holder(central.lock);
  central.objects.insert(central.objects.end(), objects, objects + n);
}

size_t Remove(BinSlot* objects, size_t n) {
  const SpinLockHolder holder(central.lock);
  n = std::min(n, central.objects.size());
  for (size_t i = 0; i < n; ++i) {
    objects[i] = central.objects.back();
    central.objects.pop_back();
  }
  return n;
}

// Requires: the calling thread is inside the cache.
size_t TakeAll(Cache& cache, BinSlot* objects) {
  const BinSlot* const top = cache.bins.tops[Index(kClass)].load(std::memory_order_relaxed);
  Expect(top >= cache.array && top <= cache.array + kCapacity, kBadTop);
  size_t n = 0;
  while (n < kCapacity) {
    void* const object = cache.bins.Pop(kClass);
    if (object == nullptr) break;
    objects[n++] = reinterpret_cast<BinSlot>(object);
  }
  return n;
}

// ---- Owners

constinit thread_local ThreadSlot own_slot __attribute__((tls_model("initial-exec")));
constinit std::atomic<bool> stop{false};
constinit std::atomic<uint64_t> lives{0};

bool OwnSlotLeadsNowhere() { return own_slot.bins.load(std::memory_order_relaxed) == &kEmptyBins; }

class Owner {
 public:
  explicit Owner(uint64_t seed) : cache_(own_slot), random_(seed) {
    Expect(OwnSlotLeadsNowhere(), kSlotWritten);
    const SpinLockHolder holder(registry.lock);
    registry.caches.Prepend(&cache_);
    own_slot.bins.store(&cache_.bins, std::memory_order_release);
  }

  ~Owner() {
    {
      const SpinLockHolder holder(registry.lock);
      registry.caches.Remove(&cache_);
      own_slot.bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_release);
    }
    BinSlot objects[kCapacity];
    size_t n;
    {
      const Visit visit(cache_, cache_.owner_inside, cache_.taker_inside);
      n = TakeAll(cache_, objects);
    }
    Insert(objects, n);
    Insert(hand_, held_);
    sched_yield();
    Expect(OwnSlotLeadsNowhere(), kSlotWritten);
  }

  void Live() {
    for (int i = 0; i < kSectionsPerLife && !stop.load(std::memory_order_relaxed); ++i) {
      random_ = random_ * 6364136223846793005 + 1442695040888963407;
      if (held_ == 0 || (held_ < kHand && random_ >> 63 != 0)) {
        Allocate();
      } else {
        Free();
      }
    }
  }

 private:
  // Calls f in an access section; false if the cache has been taken.
  template <typename F>
  bool Access(F f) {
    const bool there = own_slot.BeginAccess() == &cache_.bins;
    if (there) {
      const Visit visit(cache_, cache_.owner_inside, cache_.taker_inside);
      f(cache_.bins);
    }
    own_slot.EndAccess();
    return there;
  }

  void Allocate() {
    void* object = nullptr;
    Access([&](Bins& bins) { object = bins.Pop(kClass); });
    if (object == nullptr) {
      AllocateSlow();
    } else {
      hand_[held_++] = reinterpret_cast<BinSlot>(object);
    }
  }

  // A section of the fast path, which loads the pointer without acquire. So it must access the
  // cache only at addresses that are computed from the loaded one, even though it has the cache's
  // address.
  void Free() {
    bool pushed = false;
    BinTop* const bin = own_slot.BeginFastAccess(Scaled(kClass));
    const auto loaded = reinterpret_cast<uintptr_t>(bin);
    const auto known = reinterpret_cast<uintptr_t>(&cache_.bins.tops[Index(kClass)]);
    // Keeps the compiler from using the known address for the loaded one after the comparison.
    uintptr_t compared = loaded;
    ComputeHere(&compared);
    if (compared == known) {
      Cache& cache =
          *reinterpret_cast<Cache*>(loaded + (reinterpret_cast<uintptr_t>(&cache_) - known));
      const Visit visit(cache, cache.owner_inside, cache.taker_inside);
      pushed = bin->Push(reinterpret_cast<void*>(hand_[held_ - 1]));
    }
    own_slot.EndAccess();
    if (pushed) {
      --held_;
    } else {
      FreeSlow();
    }
  }

  void AllocateSlow() {
    FlushIfAsked();
    BinSlot objects[kBatch];
    const size_t n = Remove(objects, kBatch);
    if (n == 0) return;
    hand_[held_++] = objects[0];
    size_t kept = 1;
    Access([&](Bins& bins) {
      while (kept < n && bins.Push(kClass, reinterpret_cast<void*>(objects[kept]))) ++kept;
    });
    Insert(objects + kept, n - kept);
  }

  void FreeSlow() {
    FlushIfAsked();
    const size_t n = std::min(held_, kBatch);
    held_ -= n;
    Insert(hand_ + held_, n);
  }

  void FlushIfAsked() {
    if (!cache_.flush_requested.load(std::memory_order_relaxed)) return;
    cache_.flush_requested.store(false, std::memory_order_relaxed);
    BinSlot objects[kCapacity];
    size_t n = 0;
    Access([&](Bins&) { n = TakeAll(cache_, objects); });
    Insert(objects, n);
  }

  Cache cache_;
  BinSlot hand_[kHand] = {};
  size_t held_ = 0;
  uint64_t random_;
};

// Runs one thread after the other, each with the slot and the stack of the previous one.
void LiveAndLiveAgain(uint64_t seed) {
  while (!stop.load(std::memory_order_relaxed)) {
    seed += 2;
    std::thread([seed] { Owner(seed).Live(); }).join();
    lives.fetch_add(1, std::memory_order_relaxed);
  }
}

// ---- The taker

struct Counts {
  uint64_t takings = 0;
  uint64_t objects = 0;
  uint64_t busy = 0;
};

// A barrier of the calling thread alone. (This is no fence, because ThreadSanitizer does not
// support fences.)
void OwnBarrier() {
  static constinit std::atomic<int> word{0};
  word.exchange(1, std::memory_order_seq_cst);
}

// Takes every cache that it can. Without `membarrier`, it nevertheless uses the values that it
// reads.
void TakeFromEveryone(Membarrier* membarrier, Counts& counts) {
  const SpinLockHolder holder(registry.lock);
  IntrusiveList<Cache>& caches = registry.caches;
  for (Cache* cache = caches.first(); cache != nullptr; cache = caches.Next(cache)) {
    cache->slot.bins.store(const_cast<Bins*>(&kEmptyBins), std::memory_order_relaxed);
  }
  bool ordered = true;
  if (membarrier == nullptr) {
    OwnBarrier();
  } else {
    ordered = membarrier->Issue();
  }
  for (Cache* cache = caches.first(); cache != nullptr; cache = caches.Next(cache)) {
    if (ordered && cache->slot.busy.load(std::memory_order_acquire) == ThreadSlot::kIdle) {
      BinSlot objects[kCapacity];
      size_t n;
      {
        const Visit visit(*cache, cache->taker_inside, cache->owner_inside);
        n = TakeAll(*cache, objects);
      }
      Insert(objects, n);
      ++counts.takings;
      counts.objects += n;
    } else {
      cache->flush_requested.store(true, std::memory_order_relaxed);
      ++counts.busy;
    }
    cache->slot.bins.store(&cache->bins, std::memory_order_release);
  }
}

// Leaves the registry's lock to threads that start and end, and the caches to their owners.
void Pause(uint64_t random) {
  for (uint64_t n = random % 8000; n > 0; --n) asm volatile("");
}

// ---- The whole

struct Options {
  int seconds = 0;
  int owners = 3;
  uint64_t least_takings = 1;
  bool without_membarrier = false;
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] { return strtoull(i + 1 < argc ? argv[++i] : "", nullptr, 10); };
    if (name == "--without-membarrier") {
      options.without_membarrier = true;
    } else if (name == "--seconds") {
      options.seconds = static_cast<int>(value());
    } else if (name == "--owners") {
      options.owners = static_cast<int>(value());
    } else if (name == "--least-takings") {
      options.least_takings = value();
    } else {
      fprintf(stderr, "%s is no option\n", name.c_str());
      exit(2);
    }
  }
  return options;
}

bool SawViolation() {
  for (const std::atomic<uint64_t>& count : violations) {
    if (count.load(std::memory_order_relaxed) > 0) return true;
  }
  return false;
}

// Checks that each object is there exactly once.
void CheckObjects(size_t n) {
  std::sort(central.objects.begin(), central.objects.end());
  Expect(central.objects.size() == n, kObjectsLost);
  for (size_t i = 0; i < std::min(n, central.objects.size()); ++i) {
    Expect(central.objects[i] == (i + 1) * 16, kObjectsLost);
  }
}

int Run(const Options& options) {
  Membarrier membarrier;
  if (!options.without_membarrier && !membarrier.Register()) {
    puts("SKIP: the system gives no membarrier");
    return kSkipped;
  }
  if (options.without_membarrier && std::thread::hardware_concurrency() < 2) {
    puts("SKIP: on one processor every thread's stores are seen in their order");
    return kSkipped;
  }
  const size_t n = kObjectsPerOwner * static_cast<size_t>(options.owners);
  for (size_t i = 0; i < n; ++i) central.objects.push_back((i + 1) * 16);
  std::vector<std::thread> owners;
  for (int i = 0; i < options.owners; ++i) {
    owners.emplace_back(LiveAndLiveAgain, static_cast<uint64_t>(i + 1) << 32);
  }
  Counts counts;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(options.seconds);
  const auto is_done = [&] {
    if (options.without_membarrier && SawViolation()) return true;
    if (options.seconds > 0) return Clock::now() >= end;
    return !options.without_membarrier && counts.takings >= options.least_takings;
  };
  while (!is_done()) {
    TakeFromEveryone(options.without_membarrier ? nullptr : &membarrier, counts);
    Pause(counts.takings * 2654435761);
  }
  stop = true;
  for (std::thread& owner : owners) owner.join();
  CheckObjects(n);

  printf("%llu caches taken with %llu objects, %llu met at work, %llu lives\n",
         static_cast<unsigned long long>(counts.takings),
         static_cast<unsigned long long>(counts.objects),
         static_cast<unsigned long long>(counts.busy),
         static_cast<unsigned long long>(lives.load()));
  uint64_t total = 0;
  for (int kind = 0; kind < kViolations; ++kind) {
    const uint64_t count = violations[kind].load();
    if (count > 0)
      printf("%s: %llu\n", kViolationNames[kind], static_cast<unsigned long long>(count));
    total += count;
  }
  printf("%llu violations\n", static_cast<unsigned long long>(total));
  if (options.without_membarrier) return total > 0 ? 0 : 1;
  return total == 0 && counts.takings >= options.least_takings ? 0 : 1;
}

}  // namespace
}  // namespace tcmalloc

int main(int argc, char** argv) { return tcmalloc::Run(tcmalloc::Parse(argc, argv)); }
