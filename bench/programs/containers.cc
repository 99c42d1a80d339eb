// SPDX-License-Identifier: BSD-3-Clause

// containers: containers as in typical C++ programs. Each thread builds a hash map and a tree of
// strings, removes their elements in shuffled order, and builds them again, ROUNDS times.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/common/arguments.h"
#include "bench/common/fail.h"
#include "bench/common/random.h"
#include "bench/common/report.h"
#include "bench/common/threads.h"

namespace tcmalloc::bench {
namespace {

// Returns a text of 8 to 100 letters: some fit into the string object itself, most do not.
std::string Text(uint64_t number) {
  Random random(number);
  std::string text = std::to_string(number) + '-';
  text.append(random.FastBetween(4, 90), static_cast<char>('a' + number % 26));
  return text;
}

class Round {
 public:
  Round(uint64_t keys, Random* random) : order_(keys) {
    for (uint64_t i = 0; i < keys; ++i) order_[i] = i;
    random->Shuffle(std::span(order_));
  }

  void Build() {
    for (const uint64_t key : order_) {
      map_.emplace(Text(key), Text(~key));
      tree_.emplace(Text(~key), std::make_unique<std::string>(Text(key)));
    }
  }

  void Destroy(Random* random) {
    random->Shuffle(std::span(order_));
    for (const uint64_t key : order_) {
      const auto in_map = map_.find(Text(key));
      const auto in_tree = tree_.find(Text(~key));
      if (in_map == map_.end() || in_tree == tree_.end() || in_map->second != in_tree->first ||
          *in_tree->second != in_map->first) {
        Fail("corrupt: the containers of strings disagree at %llu",
             static_cast<unsigned long long>(key));
      }
      map_.erase(in_map);
      tree_.erase(in_tree);
    }
  }

 private:
  std::vector<uint64_t> order_;
  std::unordered_map<std::string, std::string> map_;
  std::map<std::string, std::unique_ptr<std::string>> tree_;
};

void Main(int argc, char** argv) {
  Arguments arguments(argc, argv, "Hash maps and trees of strings, built and taken apart.");
  const uint64_t threads = arguments.Number("THREADS", 2, 1, kMostThreads);
  const uint64_t keys = arguments.Number("KEYS", 50'000, 1, 1'000'000'000);
  const uint64_t rounds = arguments.Number("ROUNDS", 2, 1, 1'000'000);
  const uint64_t seed = arguments.Number("SEED", 1, 0, UINT64_MAX);
  arguments.End();

  MeasuredPart part;
  RunThreads(threads, [&](size_t thread) {
    Random random(seed + thread);
    Round round(keys, &random);
    for (uint64_t i = 0; i < rounds; ++i) {
      round.Build();
      round.Destroy(&random);
    }
  });
  part.End();
  ReportTime("containers", part);
}

}  // namespace
}  // namespace tcmalloc::bench

int main(int argc, char** argv) { tcmalloc::bench::Main(argc, argv); }
