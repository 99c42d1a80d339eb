// SPDX-License-Identifier: BSD-3-Clause
// The main function of a fuzz target where there is no libFuzzer: NAME RUNS calls the target with
// RUNS pseudo-random inputs of up to 512 bytes. Nothing guides the inputs, so this finds shallow
// faults only; it keeps the targets compiling and running in every build.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  constexpr uint32_t kSeed = 20261125;
  constexpr size_t kMaxBytes = 512;
  const unsigned long runs = argc == 2 ? strtoul(argv[1], nullptr, 10) : 0;
  if (runs == 0) {
    fprintf(stderr, "usage: %s RUNS\n", argv[0]);
    return 2;
  }
  printf("%lu runs, seed %u\n", runs, kSeed);
  std::mt19937 random(kSeed);
  for (unsigned long run = 0; run < runs; ++run) {
    std::vector<uint8_t> input(random() % (kMaxBytes + 1));
    // Half of the inputs are text, so that parsers get beyond the first byte.
    const bool text = random() % 2 == 0;
    for (uint8_t& byte : input) {
      byte = static_cast<uint8_t>(text ? ' ' + random() % ('~' - ' ' + 1) : random());
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  return 0;
}
