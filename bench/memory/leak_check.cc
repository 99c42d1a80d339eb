// SPDX-License-Identifier: BSD-3-Clause

// bench_leak_check: measures how long a leak check stops a process, per GiB of objects. The check
// builds the index of objects, and marks everything from one root. Each line of output is from one
// process with one heap, whose structures are built at random addresses, as in a program that has
// run for a while.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/fail.h"
#include "bench/common/random.h"
#include "instruments/leaks/heap_objects.h"
#include "instruments/leaks/process_search.h"
#include "os/memory/virtual_memory.h"
#include "process/fork.h"
#include "process/heap.h"

extern "C" {
void* tc_malloc(size_t size) noexcept;
void tc_free(void* p) noexcept;
}

namespace tcmalloc::bench {
namespace {

enum Structure : uint64_t { kList, kLists, kTree, kPointers, kNumStructures };
constexpr const char* kNames[kNumStructures] = {"one list", "1000 lists", "binary tree",
                                                "array of pointers"};
constexpr size_t kLists1000 = 1000;

struct Node {
  Node* next;
  Node* other;
};
static_assert(sizeof(Node) <= 16);

Node* roots[kLists1000];

double Now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Frees every third object while the heap grows, so that the others are not contiguous.
std::vector<Node*> AllocateObjects(size_t n, size_t bytes, Random& random) {
  std::vector<Node*> objects;
  std::vector<void*> freed;
  objects.reserve(n);
  while (objects.size() < n) {
    auto* const object = static_cast<Node*>(tc_malloc(bytes));
    if (object == nullptr) Fail("out of memory");
    for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) {
      // Stores small numbers and text, as programs do.
      reinterpret_cast<uint64_t*>(object)[i] = random.Next() >> (8 + random.Below(56));
    }
    *object = {nullptr, nullptr};
    if (random.Below(10) == 0) {
      freed.push_back(object);
    } else {
      objects.push_back(object);
    }
  }
  for (void* const object : freed) tc_free(object);
  random.Shuffle(std::span<Node*>(objects));
  return objects;
}

void Link(Structure structure, std::vector<Node*>& objects) {
  const size_t n = objects.size();
  switch (structure) {
    case kList:
      roots[0] = objects[0];
      for (size_t i = 0; i + 1 < n; ++i) objects[i]->next = objects[i + 1];
      break;
    case kLists:
      for (size_t i = 0; i < n; ++i) {
        if (i < kLists1000) roots[i] = objects[i];
        if (i + kLists1000 < n) objects[i]->next = objects[i + kLists1000];
      }
      break;
    case kTree:
      roots[0] = objects[0];
      for (size_t i = 0; i < n; ++i) {
        if (2 * i + 1 < n) objects[i]->next = objects[2 * i + 1];
        if (2 * i + 2 < n) objects[i]->other = objects[2 * i + 2];
      }
      break;
    default: {
      auto* const array = static_cast<Node**>(tc_malloc(n * sizeof(Node*)));
      if (array == nullptr) Fail("out of memory");
      for (size_t i = 0; i < n; ++i) array[i] = objects[i];
      roots[0] = reinterpret_cast<Node*>(array);
    }
  }
}

int Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "How long a leak check of a heap takes.");
  const size_t bytes = arguments.Number("BYTES", 64, 16, size_t{1} << 30);
  const auto structure =
      static_cast<Structure>(arguments.Number("STRUCTURE", kList, 0, kNumStructures - 1));
  const size_t mebibytes = arguments.Number("MEBIBYTES", 1024, 1, 1 << 20);
  const size_t rounds = arguments.Number("ROUNDS", 3, 1, 1000);
  arguments.End();

  Random random(1);
  const size_t n = (mebibytes << 20) / bytes;
  {
    std::vector<Node*> objects = AllocateObjects(n, bytes, random);
    Link(structure, objects);
  }
  if (structure == kList) {
    // No order of marking can be faster than this walk: each object has the address of the next
    // one.
    const double start_cpu = Now(CLOCK_THREAD_CPUTIME_ID);
    size_t walked = 0;
    for (const Node* node = roots[0]; node != nullptr; node = node->next) ++walked;
    printf("the list walked by the program: %.1f ns of processor time per object\n",
           1e9 * (Now(CLOCK_THREAD_CPUTIME_ID) - start_cpu) / static_cast<double>(walked));
  }
  for (size_t round = 0; round < rounds; ++round) {
    SystemVirtualMemory vm;
    CheckMemory memory(vm);
    ObjectIndex index(memory);
    const double start = Now();
    const double start_cpu = Now(CLOCK_THREAD_CPUTIME_ID);
    HoldHeap();
    if (!index.Build(GlobalHeap())) Fail("no memory for the index");
    const double built = Now();
    Marker marker(index, memory, {});
    if (!marker.Prepare() ||
        !marker.AddRange(reinterpret_cast<uintptr_t>(roots),
                         reinterpret_cast<uintptr_t>(roots + kLists1000)) ||
        !marker.Run()) {
      Fail("no memory for the marks");
    }
    const double marked = Now();
    const double cpu = Now(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
    ReleaseHeap();
    const double gibibytes = static_cast<double>(index.object_bytes()) / (1 << 30);
    printf(
        "%zu bytes, %s: %zu objects, %.2f GiB: index %.3f s, marks %.3f s, pause %.3f s per GiB, "
        "%.3f s of processor time, %.1f ns per object; %zu unmarked, %zu not on the list, %.1f "
        "MiB\n",
        bytes, kNames[structure], index.num_objects(), gibibytes, built - start, marked - built,
        (marked - start) / gibibytes, cpu / gibibytes,
        1e9 * cpu / static_cast<double>(index.num_objects()), marker.num_unmarked(),
        marker.counts().overflows, static_cast<double>(memory.mapped_bytes()) / (1 << 20));
  }
  return 0;
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { return tcmalloc::bench::Main(argc, argv); }
