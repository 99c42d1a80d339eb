// SPDX-License-Identifier: BSD-3-Clause
#include "central/misuse.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <string>

namespace tcmalloc {
namespace {

TEST(MisuseDeathTest, OneLineForEachKind) {
  struct Case {
    Misuse misuse;
    size_t size;
    size_t expected;
    size_t alignment;
    std::string line;
  };
  const Case cases[] = {
      {Misuse::kDoubleFree, 48, 0, 1,
       "free of 0x12340: double free, the object of 48 bytes is already free"},
      {Misuse::kNotAnObjectStart, 112, 0, 1,
       "free of 0x12340: not the start of an object, but a pointer into one of 112 bytes"},
      {Misuse::kNotInUse, 0, 0, 1,
       "free of 0x12340: no object is in use there (freed before, or never the start of one)"},
      {Misuse::kWrongSize, 48, 100, 1,
       "free of 0x12340: the object has 48 bytes, but the sized free says 100"},
      {Misuse::kWrongSize, 48, 40, 64,
       "free of 0x12340: the object has 48 bytes, but the sized free says 40 with alignment 64"},
      {Misuse::kMissingAlignment, 128, 100, 1,
       "free of 0x12340: the object has 128 bytes, but the sized free says 100 without the "
       "alignment of the allocation"},
      {Misuse::kWrongAlignment, 0, 0, 128,
       "free of 0x12340: the sized free says alignment 128, which the address does not have"},
      {Misuse::kWrongAlignment, 0, 0, 0,
       "free of 0x12340: the sized free says alignment 0, which is not a power of two"},
      {Misuse::kStack, 0, 0, 1,
       "free of 0x12340: not an object, but a pointer into a thread's stack"},
      {Misuse::kModuleImage, 0, 0, 1,
       "free of 0x12340: not an object, but a pointer into the image of the program or a library"},
      {Misuse::kUnknown, 0, 0, 1,
       "free of 0x12340: not an object of this allocator, and no other allocator is in use"},
      // Other calls than frees report this, too.
      {Misuse::kUpperBits, 0, 0, 1,
       "use of 0x12340: not an address; without its upper bits it is one of this allocator's"},
  };
  for (const Case& c : cases) {
    EXPECT_EXIT(ReportMisuse(c.misuse, reinterpret_cast<void*>(uintptr_t{0x12340}), c.size,
                             c.expected, c.alignment),
                testing::KilledBySignal(SIGABRT), testing::Eq("tcmalloc: " + c.line + "\n"));
  }
}

// The largest numbers fit into the line.
TEST(MisuseDeathTest, LongestLine) {
  EXPECT_EXIT(
      ReportMisuse(Misuse::kWrongSize, reinterpret_cast<void*>(UINTPTR_MAX), SIZE_MAX, SIZE_MAX,
                   SIZE_MAX),
      testing::KilledBySignal(SIGABRT),
      testing::Eq<std::string>("tcmalloc: free of 0x" + std::string(2 * sizeof(void*), 'f') +
                               ": the object has " + std::to_string(SIZE_MAX) +
                               " bytes, but the sized free says " + std::to_string(SIZE_MAX) +
                               " with alignment " + std::to_string(SIZE_MAX) + "\n"));
}

}  // namespace
}  // namespace tcmalloc
