// SPDX-License-Identifier: BSD-3-Clause
#include "central/misuse.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <string>

namespace tcmalloc {
namespace {

void ExpectLine(Misuse misuse, size_t size, size_t expected, const std::string& what) {
  void* const p = reinterpret_cast<void*>(static_cast<uintptr_t>(0x123456789abc));
  const std::string pointer = sizeof(void*) == 8 ? "0x123456789abc" : "0x56789abc";
  EXPECT_EXIT(ReportMisuse(misuse, p, size, expected), testing::KilledBySignal(SIGABRT),
              testing::Eq<std::string>("tcmalloc: free of " + pointer + ": " + what + "\n"));
}

TEST(MisuseDeathTest, OneLineForEachKind) {
  ExpectLine(Misuse::kDoubleFree, 48, 0, "double free, the object of 48 bytes is already free");
  ExpectLine(Misuse::kNotAnObjectStart, 112, 0,
             "not the start of an object, but a pointer into one of 112 bytes");
  ExpectLine(Misuse::kNotInUse, 0, 0,
             "no object is in use there (freed before, or never the start of one)");
  ExpectLine(Misuse::kWrongSize, 48, 100, "the object has 48 bytes, but the sized free says 100");
  ExpectLine(Misuse::kWrongAlignment, 0, 0,
             "the sized free says alignment 1, which the address does not have");
  ExpectLine(Misuse::kStack, 0, 0, "not an object, but a pointer into a thread's stack");
  ExpectLine(Misuse::kModuleImage, 0, 0,
             "not an object, but a pointer into the image of the program or a library");
  ExpectLine(Misuse::kUnknown, 0, 0,
             "not an object of this allocator, and no other allocator is in use");
}

TEST(MisuseDeathTest, TheLineNamesThePassedAlignment) {
  void* const p = reinterpret_cast<void*>(uintptr_t{0x12340});
  const std::string start = "tcmalloc: free of 0x12340: ";
  EXPECT_EXIT(
      ReportMisuse(Misuse::kWrongSize, p, 48, 40, 64), testing::KilledBySignal(SIGABRT),
      testing::Eq<std::string>(start + "the object has 48 bytes, but the sized free says 40 "
                                       "with alignment 64\n"));
  EXPECT_EXIT(
      ReportMisuse(Misuse::kWrongAlignment, p, 0, 0, 128), testing::KilledBySignal(SIGABRT),
      testing::Eq<std::string>(start + "the sized free says alignment 128, which the address "
                                       "does not have\n"));
  EXPECT_EXIT(
      ReportMisuse(Misuse::kWrongAlignment, p, 0, 0, 0), testing::KilledBySignal(SIGABRT),
      testing::Eq<std::string>(start + "the sized free says alignment 0, which is not a power "
                                       "of two\n"));
}

// Other calls than frees report this, too.
TEST(MisuseDeathTest, UpperBits) {
  EXPECT_EXIT(ReportMisuse(Misuse::kUpperBits, reinterpret_cast<void*>(uintptr_t{0x12340})),
              testing::KilledBySignal(SIGABRT),
              testing::Eq<std::string>("tcmalloc: use of 0x12340: not an address; without its "
                                       "upper bits it is one of this allocator's\n"));
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
