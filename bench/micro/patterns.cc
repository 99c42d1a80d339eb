// SPDX-License-Identifier: BSD-3-Clause
#include "bench/micro/patterns.h"

#include <array>
#include <cstdlib>

#include "bench/common/random.h"

namespace tcmalloc::bench {
namespace {

constexpr size_t kHotSize = 64;
constexpr size_t kBurst = 100;
constexpr size_t kLiveObjects = 1000;
constexpr size_t kSmallestSize = 8;
constexpr size_t kLargestSize = 512;
// The descriptions below contain these numbers.
static_assert(kHotSize == 64 && kBurst == 100 && kLiveObjects == 1000);
static_assert(kSmallestSize == 8 && kLargestSize == 512);

// Writes the first word of the object and hides the pointer from the optimiser, which may otherwise
// remove a malloc whose object is only freed (this file is compiled with -fno-builtin as well).
inline void* Use(void* object, uint64_t value) {
  *static_cast<uint64_t*>(object) = value;
  asm volatile("" : "+r"(object) : : "memory");
  return object;
}

void Nothing() {}
void NoSetUp(uint64_t) {}

void RunPairs(uint64_t pairs) {
  for (uint64_t i = 0; i < pairs; ++i) {
    free(Use(malloc(kHotSize), i));
  }
}

void RunBursts(uint64_t pairs) {
  std::array<void*, kBurst> objects;
  for (uint64_t burst = 0; burst < pairs / kBurst; ++burst) {
    for (size_t i = 0; i < kBurst; ++i) objects[i] = Use(malloc(kHotSize), i);
    for (size_t i = 0; i < kBurst; ++i) free(objects[i]);
  }
}

struct Replacement {
  uint16_t slot;
  uint16_t size;
};

// The sequence is too long for a branch predictor to learn, and short enough (256 KiB) to be read
// from the second-level cache, one line in 16 steps.
std::array<Replacement, 65536> replacements;
size_t next_replacement = 0;
std::array<void*, kLiveObjects> live_objects;

void SetUpRandom(uint64_t seed) {
  Random random(seed);
  const auto random_size = [&random] {
    return kSmallestSize + random.Below(kLargestSize - kSmallestSize + 1);
  };
  for (Replacement& replacement : replacements) {
    replacement.slot = static_cast<uint16_t>(random.Below(kLiveObjects));
    replacement.size = static_cast<uint16_t>(random_size());
  }
  next_replacement = 0;
  for (void*& object : live_objects) object = Use(malloc(random_size()), 0);
}

void RunRandom(uint64_t pairs) {
  size_t next = next_replacement;
  for (uint64_t i = 0; i < pairs; ++i) {
    const Replacement replacement = replacements[next];
    next = (next + 1) % replacements.size();
    void*& object = live_objects[replacement.slot];
    free(object);
    object = Use(malloc(replacement.size), i);
  }
  next_replacement = next;
}

void TearDownRandom() {
  for (void*& object : live_objects) {
    free(object);
    object = nullptr;
  }
}

constexpr std::array<Pattern, 3> kPatterns = {{
    {.name = "pair",
     .description = "malloc and free of one object of 64 bytes",
     .pairs_per_slice = 3'000'000,
     .set_up = &NoSetUp,
     .run = &RunPairs,
     .tear_down = &Nothing},
    {.name = "burst",
     .description = "allocate 100 objects of 64 bytes, free 100",
     .pairs_per_slice = 2'000'000,
     .set_up = &NoSetUp,
     .run = &RunBursts,
     .tear_down = &Nothing},
    {.name = "random",
     .description = "replace a random one of 1000 live objects of 8 to 512 bytes",
     .pairs_per_slice = 1'600'000,
     .set_up = &SetUpRandom,
     .run = &RunRandom,
     .tear_down = &TearDownRandom},
}};

}  // namespace

std::span<const Pattern> Patterns() { return kPatterns; }

size_t FindPattern(std::string_view name) {
  size_t index = 0;
  while (index < kPatterns.size() && kPatterns[index].name != name) ++index;
  return index;
}

}  // namespace tcmalloc::bench
