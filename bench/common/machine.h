// SPDX-License-Identifier: BSD-3-Clause

// The facts about machine and build that a reader needs to judge a figure.
#pragma once

#include <string>
#include <vector>

namespace tcmalloc::bench {

struct Fact {
  std::string name;
  std::string value;
};

// Processor, kernel, hugepage setting, frequency governor, load, compiler, build type, and those
// environment variables that tune an allocator.
std::vector<Fact> DescribeMachine();

}  // namespace tcmalloc::bench
