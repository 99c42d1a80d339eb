// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/mapped_array.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "testing/fake_virtual_memory.h"

namespace tcmalloc {
namespace {

TEST(MappedArrayTest, KeepsPushedElements) {
  FakeVirtualMemory vm;
  {
    MappedArray<uint32_t> array(vm);
    EXPECT_EQ(array.size(), 0u);
    EXPECT_EQ(array.begin(), array.end());
    for (uint32_t i = 0; i < 100'000; ++i) ASSERT_TRUE(array.Push(i));
    ASSERT_EQ(array.size(), 100'000u);
    uint32_t expected = 0;
    for (const uint32_t i : array) ASSERT_EQ(i, expected++);
    EXPECT_LT(vm.map_calls(), 20u);
    array.Clear();
    EXPECT_EQ(array.size(), 0u);
    EXPECT_GE(array.capacity(), 100'000u);
  }
  EXPECT_EQ(vm.mapped_bytes(), 0u);
}

TEST(MappedArrayTest, IsUnchangedWhenThereIsNoMemory) {
  FakeVirtualMemory vm;
  MappedArray<uint64_t> array(vm);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  EXPECT_FALSE(array.Push(1));
  EXPECT_FALSE(array.Reserve(1));
  vm.StopFailing();
  for (uint64_t i = 0; array.size() == 0 || array.size() < array.capacity(); ++i) {
    ASSERT_TRUE(array.Push(i));
  }
  const size_t full = array.size();
  vm.FailMap(1, FakeVirtualMemory::kForever);
  EXPECT_FALSE(array.Push(1));
  EXPECT_FALSE(array.Reserve(SIZE_MAX / sizeof(uint64_t)));
  EXPECT_FALSE(array.Reserve(SIZE_MAX));
  ASSERT_EQ(array.size(), full);
  for (size_t i = 0; i < full; ++i) ASSERT_EQ(array[i], i);
}

TEST(MappedArrayTest, AppendsInPieces) {
  FakeVirtualMemory vm;
  MappedArray<char> array(vm);
  std::string expected;
  ASSERT_TRUE(array.Append(nullptr, 0));
  for (size_t n = 0; n < 1000; ++n) {
    const std::string piece(n, static_cast<char>('a' + n % 26));
    ASSERT_TRUE(array.Append(piece.data(), piece.size()));
    expected += piece;
  }
  EXPECT_EQ(std::string_view(array.data(), array.size()), expected);
  EXPECT_LT(vm.map_calls(), 20u);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  const std::string more(array.capacity() - array.size() + 1, 'x');
  EXPECT_FALSE(array.Append(more.data(), more.size()));
  EXPECT_EQ(std::string_view(array.data(), array.size()), expected);
}

}  // namespace
}  // namespace tcmalloc
