// SPDX-License-Identifier: BSD-3-Clause

// scattered-nodes: allocates NODES nodes of 48 bytes, and after every tenth one an object of 64 to
// 640 bytes that the program never touches. The nodes are linked to one cycle in random order,
// which the program walks STEPS steps; then it frees all. The time is mostly that of cache and TLB
// misses. An allocator that writes to free memory, or backs it before it is used, has a larger peak
// RSS.
#include "bench/common/arguments.h"
#include "bench/common/mapped_array.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kNodesPerUntouched = 10;
constexpr uint64_t kSmallestUntouched = 64;
constexpr uint64_t kLargestUntouched = 640;

struct Node {
  Node* next;
  uint64_t visits;
  uint64_t self;  // the node's own address, mangled: another owner of the memory overwrites it
  uint64_t rest[3];
};
static_assert(sizeof(Node) == 48);

uint64_t Mangled(const Node* node) { return ~reinterpret_cast<uintptr_t>(node); }

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "A random walk over nodes among memory that nobody touches.");
  const uint64_t nodes = arguments.Number("NODES", 1'500'000, 1, 1'000'000'000);
  const uint64_t steps = arguments.Number("STEPS", 3'000'000, 1, uint64_t{1} << 40);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  Random random(seed);
  MappedArray<Node*> all(nodes);
  MappedArray<void*> untouched(nodes / kNodesPerUntouched + 1);
  MeasuredPart part;
  const double start = Now();
  for (uint64_t i = 0; i < nodes; ++i) {
    all[i] = static_cast<Node*>(Allocate(sizeof(Node)));
    *all[i] = {.next = nullptr, .visits = 0, .self = Mangled(all[i]) + i, .rest = {}};
    if (i % kNodesPerUntouched == 0) {
      untouched[i / kNodesPerUntouched] =
          Allocate(random.FastBetween(kSmallestUntouched, kLargestUntouched));
    }
  }
  for (uint64_t i = 0; i < nodes; ++i) {
    if (all[i]->self != Mangled(all[i]) + i) FailCorrupt();
  }
  const double built = Now();
  random.Shuffle(all.elements());
  for (uint64_t i = 0; i < nodes; ++i) all[i]->next = all[(i + 1) % nodes];
  const double linked = Now();
  Node* node = all[0];
  for (uint64_t i = 0; i < steps; ++i) {
    ++node->visits;
    node = node->next;
  }
  const double walked = Now();
  uint64_t visits = 0;
  for (Node* const each : all) {
    visits += each->visits;
    free(each);
  }
  for (void* const each : untouched) free(each);
  const double end = Now();
  part.End();
  if (visits != steps) FailCorrupt();

  Report report("scattered-nodes", part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("build_s", built - start, "s", Better::kLower);
  report.Value("walk_s", walked - linked, "s", Better::kLower);
  report.Value("free_s", end - walked, "s", Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
