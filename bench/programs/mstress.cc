// SPDX-License-Identifier: BSD-3-Clause

// mstress: a server under varying load. In each phase all threads are new. A thread
// allocates objects of mixed sizes, most of them small; keeps some to its end; frees others soon;
// and hands others over through a shared table, from which any thread, of this phase or a later
// one, takes and frees them. Threads differ in the amount of their work. SCALE sets that amount in
// hundreds of objects.
#include <atomic>
#include <new>

#include "bench/common/arguments.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

constexpr size_t kTableSlots = 1000;
constexpr uint64_t kObjectsPerScale = 100;

// The objects contain their own size: any thread may find and check them.
struct Header {
  uint64_t words;  // including the header's
  uint64_t mark;
};
constexpr uint64_t kWordBytes = sizeof(uint64_t);
constexpr uint64_t kHeaderWords = sizeof(Header) / kWordBytes;

// Returns a power of two of words up to half a KiB, large ones less often; sometimes 16 times more,
// and very rarely 256 times.
uint64_t RandomWords(Random* random) {
  const uint64_t bits = random->Next();
  const uint64_t words = kHeaderWords << __builtin_ctzll(bits | 1 << 5);
  const uint64_t rare = bits >> 32 & 1023;
  return rare == 0 ? words * 256 : rare < 10 ? words * 16 : words;
}

Header* NewObject(uint64_t mark, Random* random) {
  const uint64_t words = RandomWords(random);
  auto* const object = static_cast<uint64_t*>(Allocate(words * kWordBytes));
  for (uint64_t i = kHeaderWords; i < words; ++i) object[i] = mark ^ i;
  return new (object) Header{.words = words, .mark = mark};
}

void CheckAndFree(Header* object) {
  if (object == nullptr) return;
  // The object was freed by other code, and is not yet reused.
  if (object->words == 0) FailCorrupt();
  const auto* const words = reinterpret_cast<const uint64_t*>(object);
  for (uint64_t i = kHeaderWords; i < object->words; ++i) {
    if (words[i] != (object->mark ^ i)) FailCorrupt();
  }
  object->words = 0;
  free(object);
}

// A list of objects that grows by realloc.
class List {
 public:
  ~List() {
    for (size_t i = 0; i < size_; ++i) CheckAndFree(objects_[i]);
    free(objects_);
  }
  void Add(Header* object) {
    if (size_ == capacity_) {
      capacity_ = capacity_ == 0 ? 16 : capacity_ * 2;
      objects_ = static_cast<Header**>(realloc(objects_, capacity_ * sizeof(*objects_)));
      if (objects_ == nullptr) Fail("realloc returned null");
    }
    objects_[size_++] = object;
  }
  Header** Any(Random* random) { return &objects_[random->FastBelow(size_)]; }
  bool empty() const { return size_ == 0; }

 private:
  Header** objects_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

class Stress {
 public:
  Stress(uint64_t scale, uint64_t seed) : scale_(scale), seed_(seed), table_(kTableSlots) {}

  // The work of one thread in one phase.
  void Work(uint64_t phase, size_t thread) {
    // Each thread of each phase has its own sequence of random numbers.
    Random random(seed_ + phase * kMostThreads + thread);
    uint64_t passing = scale_ * kObjectsPerScale * (1 + thread % 4);
    uint64_t kept = passing / 4;
    List passing_objects;
    List kept_objects;
    while (passing + kept > 0) {
      if (kept == 0 || (passing > 0 && random.FastBelow(4) != 0)) {
        --passing;
        passing_objects.Add(NewObject(random.Next(), &random));
      } else {
        --kept;
        kept_objects.Add(NewObject(random.Next(), &random));
      }
      if (passing_objects.empty()) continue;
      if (random.FastBelow(3) != 0) {
        Header** const victim = passing_objects.Any(&random);
        CheckAndFree(*victim);
        *victim = nullptr;
      }
      if (random.FastBelow(4) == 0) {
        // The exchange publishes an object's contents to the thread that takes it.
        Header** const given = passing_objects.Any(&random);
        *given = table_[random.FastBelow(kTableSlots)].exchange(*given, std::memory_order_acq_rel);
      }
    }
  }

  void EmptyTable(uint64_t fraction, uint64_t seed) {
    Random random(seed);
    for (auto& slot : table_) {
      if (random.FastBelow(fraction) == 0) CheckAndFree(slot.exchange(nullptr));
    }
  }

 private:
  const uint64_t scale_;
  const uint64_t seed_;
  MappedArray<std::atomic<Header*>> table_;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Threads that come and go and hand each other objects.");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t scale = arguments.Number("SCALE", 50, 1, 1'000'000);
  const uint64_t phases = arguments.Number("ITERATIONS", 400, 1, 1'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  Stress stress(scale, seed);
  MeasuredPart part;
  for (uint64_t phase = 0; phase < phases; ++phase) {
    RunThreads(threads, [&](size_t thread) { stress.Work(phase, thread); });
    if (phase % 4 == 0) stress.EmptyTable(2, seed + phase);
  }
  stress.EmptyTable(1, 0);
  part.End();
  ReportTime("mstress", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
