// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profile/address_table.h"

#include <gtest/gtest.h>

#include <map>

#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

TEST(AddressTableTest, NumbersInOrderOfFirstInsertion) {
  SystemVirtualMemory vm;
  AddressTable table(vm);
  std::map<uintptr_t, uint32_t> expected;
  SeededRandom random(11);
  for (int i = 0; i < 200'000; ++i) {
    // The addresses are close together, as return addresses of a program are, and include 0.
    const uintptr_t address = random.Below(60'000);
    const auto [at, is_new] =
        expected.try_emplace(address, static_cast<uint32_t>(expected.size() + 1));
    const AddressTable::Result result = table.FindOrInsert(address);
    ASSERT_EQ(result.number, at->second) << address;
    ASSERT_EQ(result.is_new, is_new) << address;
  }
  EXPECT_GT(expected.size(), 50'000u);
}

TEST(AddressTableTest, FailedInsertionChangesNothing) {
  FakeVirtualMemory vm;
  AddressTable table(vm);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  EXPECT_EQ(table.FindOrInsert(1).number, 0u);
  vm.StopFailing();
  uintptr_t last = 1;
  EXPECT_EQ(table.FindOrInsert(1).number, 1u);
  vm.FailMap(1, FakeVirtualMemory::kForever);
  while (table.FindOrInsert(last + 1).number != 0) ++last;
  EXPECT_GT(last, 1000u);
  for (uintptr_t i = 1; i <= last; ++i) {
    ASSERT_EQ(table.FindOrInsert(i).number, i);
    ASSERT_FALSE(table.FindOrInsert(i).is_new);
  }
  vm.StopFailing();
  EXPECT_EQ(table.FindOrInsert(last + 1).number, last + 1);
}

}  // namespace
}  // namespace tcmalloc
