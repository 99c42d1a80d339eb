// SPDX-License-Identifier: BSD-3-Clause

// graph: builds a graph of NODES nodes, walks STEPS steps from node to node along the pointers, and
// takes it apart. Each node has an array of edges and a label, allocated separately; while the
// graph is built, other objects are allocated and freed. The time of the walk depends on how close
// to each other the allocator places objects that belong together.
#include "bench/common/arguments.h"
#include "bench/common/mapped_array.h"
#include "bench/common/object.h"
#include "bench/common/random.h"
#include "bench/common/report.h"

namespace tcmalloc::bench {
namespace {

constexpr uint64_t kMostEdges = 6;
constexpr uint64_t kSmallestLabel = 8;
constexpr uint64_t kLargestLabel = 48;
// All but one edge lead to a node that was made shortly before or after.
constexpr uint64_t kNear = 1000;

struct Node {
  Node** edges;
  uint64_t num_edges;
  uint64_t visits;
  Object label;
};

class Graph {
 public:
  Graph(uint64_t nodes, uint64_t seed) : random_(seed), nodes_(nodes) {}

  void Build() {
    void* passing = nullptr;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      auto* const node = static_cast<Node*>(Allocate(sizeof(Node)));
      node->num_edges = random_.FastBetween(1, kMostEdges);
      node->edges = static_cast<Node**>(Allocate(node->num_edges * sizeof(Node*)));
      node->visits = 0;
      node->label =
          Object::New(random_.FastBetween(kSmallestLabel, kLargestLabel), static_cast<uint32_t>(i));
      node->label.MarkThroughout();
      nodes_[i] = node;
      if (i % 2 == 0) {
        free(passing);
        passing = Allocate(random_.FastBetween(16, 100));
      }
    }
    free(passing);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      // One edge leads to any node, so the walk can leave every part of the graph.
      nodes_[i]->edges[0] = nodes_[random_.FastBelow(nodes_.size())];
      for (uint64_t k = 1; k < nodes_[i]->num_edges; ++k) nodes_[i]->edges[k] = Near(i);
    }
  }

  void Walk(uint64_t steps) {
    Node* node = nodes_[0];
    for (uint64_t i = 0; i < steps; ++i) {
      ++node->visits;
      node = node->edges[random_.FastBelow(node->num_edges)];
    }
  }

  // Returns how many visits the nodes have counted.
  uint64_t TakeApart() {
    uint64_t visits = 0;
    for (Node* const node : nodes_) {
      visits += node->visits;
      node->label.Check();
      free(node->label.memory);
      free(node->edges);
      free(node);
    }
    return visits;
  }

 private:
  Node* Near(size_t from) {
    return nodes_[(from + nodes_.size() - kNear / 2 + random_.FastBelow(kNear)) % nodes_.size()];
  }

  Random random_;
  MappedArray<Node*> nodes_;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "A graph of nodes that point to each other.");
  const uint64_t nodes = arguments.Number("NODES", 1'500'000, kNear, 1'000'000'000);
  const uint64_t steps = arguments.Number("STEPS", 1'000'000, 1, uint64_t{1} << 40);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  Graph graph(nodes, seed);
  MeasuredPart part;
  const double start = Now();
  graph.Build();
  const double built = Now();
  graph.Walk(steps);
  const double walked = Now();
  const uint64_t visits = graph.TakeApart();
  const double end = Now();
  part.End();
  if (visits != steps) Fail("corrupt: the walk left other traces than its steps");
  Report report("graph", part);
  report.Value("time_s", part.wall_s(), "s", Better::kLower);
  report.Value("build_s", built - start, "s", Better::kLower);
  report.Value("walk_s", walked - built, "s", Better::kLower);
  report.Value("free_s", end - walked, "s", Better::kLower);
  report.Write();
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
