// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory_use.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

std::optional<uint64_t> Anonymous(std::string_view statm, uint64_t page_bytes = 4096) {
  ProcessMemory memory;
  if (!ParseProcessMemory(statm, page_bytes, &memory)) return std::nullopt;
  return memory.anonymous_bytes;
}

TEST(AnonymousBytesTest, Values) {
  EXPECT_EQ(Anonymous("765 419 391 5 0 123 0\n"), 28u * 4096);
  EXPECT_EQ(Anonymous("765 419 391 5 0 123 0\n", 65536), 28u * 65536);
  EXPECT_EQ(Anonymous("1 2 0 "), 8192u);
  // The kernel's counters are not updated together.
  EXPECT_EQ(Anonymous("765 391 419 5 0 123 0\n"), 0u);
  EXPECT_EQ(Anonymous("0 17592186044415 0 0", 1 << 20), UINT64_MAX - (1 << 20) + 1);
  for (const char* const bad :
       {"", "\n", "765", "765 ", "765 419", "765 419 ", "765 419 391", "765 419 391\n",
        "765 x 391 5", "765 419 x 5", "765  419 391", "765 -1 391 5", "765 17592186044416 0 5",
        "765 18446744073709551616 0 5"}) {
    EXPECT_FALSE(Anonymous(bad).has_value()) << bad;
  }
}

TEST(ReadProcessMemoryTest, AnonymousMemoryIsAPart) {
  const std::optional<ProcessMemory> memory = ReadProcessMemory();
  ASSERT_TRUE(memory.has_value());
  EXPECT_GT(memory->anonymous_bytes, 0u);
  EXPECT_LT(memory->anonymous_bytes, memory->resident_bytes);
  EXPECT_FALSE(ReadProcessMemory("/no/such/file").has_value());
}

}  // namespace
}  // namespace tcmalloc
