// SPDX-License-Identifier: BSD-3-Clause
#include "tools/leak/check_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "testing/fake_virtual_memory.h"

namespace tcmalloc {
namespace {

TEST(CheckMemoryTest, MemoryIsZeroAndDoesNotOverlap) {
  FakeVirtualMemory vm(FakeVirtualMemory::Options{});
  CheckMemory memory(vm);
  std::vector<std::pair<char*, size_t>> pieces;
  for (const size_t bytes :
       {1,     0,     63,    64,    65,    4096,  32767, 32768, 32769, 1 << 20, 100,
        20000, 30000, 32000, 31000, 32000, 32000, 32000, 32000, 32000, 32000,   5}) {
    char* const piece = static_cast<char*>(memory.Allocate(bytes));
    ASSERT_NE(piece, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(piece[i], 0);
    memset(piece, 1 + static_cast<int>(pieces.size()), bytes);
    pieces.emplace_back(piece, bytes);
  }
  for (size_t p = 0; p < pieces.size(); ++p) {
    for (size_t i = 0; i < pieces[p].second; ++i) ASSERT_EQ(pieces[p].first[i], char(1 + p));
  }
}

TEST(CheckMemoryTest, ListsItsMappings) {
  FakeVirtualMemory vm({.gaps = true});
  CheckMemory memory(vm);
  const auto small = reinterpret_cast<uintptr_t>(memory.Allocate(100));
  const auto large = reinterpret_cast<uintptr_t>(memory.Allocate(1 << 20));
  EXPECT_TRUE(memory.Contains(small) && memory.Contains(small + 99));
  EXPECT_TRUE(memory.Contains(large) && memory.Contains(large + (1 << 20) - 1));
  size_t bytes = 0;
  memory.ForEachRange([&](uintptr_t start, uintptr_t end) {
    EXPECT_TRUE(memory.Contains(start) && memory.Contains(end - 1));
    EXPECT_FALSE(memory.Contains(start - 1));
    EXPECT_FALSE(memory.Contains(end));
    bytes += end - start;
  });
  EXPECT_EQ(bytes, memory.mapped_bytes());
  memory.FreeAll();
  EXPECT_FALSE(memory.Contains(small) || memory.Contains(large));
  EXPECT_EQ(memory.mapped_bytes(), 0u);
  EXPECT_NE(memory.Allocate(1), nullptr);
}

TEST(CheckMemoryTest, WithoutMemory) {
  FakeVirtualMemory vm({.range_bytes = size_t{1} << 20});
  CheckMemory memory(vm);
  EXPECT_EQ(memory.Allocate(size_t{2} << 20), nullptr);
  EXPECT_EQ(memory.Allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(memory.AllocateArray<uint64_t>(SIZE_MAX / 4), nullptr);
  EXPECT_EQ(memory.mapped_bytes(), 0u);
  EXPECT_NE(memory.Allocate(1000), nullptr);
}

}  // namespace
}  // namespace tcmalloc
