// SPDX-License-Identifier: BSD-3-Clause
#include "os/memory/mapped_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "os/memory/virtual_memory.h"
#include "testing/no_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

std::vector<std::pair<uintptr_t, uintptr_t>> Listed(MappedRanges* ranges) {
  std::vector<AddressRange> copy(ranges->size());
  EXPECT_EQ(ranges->CopyTo(copy.data(), copy.size()), copy.size());
  std::vector<std::pair<uintptr_t, uintptr_t>> pairs;
  for (const AddressRange& range : copy) pairs.emplace_back(range.start, range.end);
  return pairs;
}

const void* At(uintptr_t address) { return reinterpret_cast<const void*>(address); }

using Pairs = std::vector<std::pair<uintptr_t, uintptr_t>>;

TEST(MappedRangesTest, KnowsThatItIsIncomplete) {
  NoMemory vm;
  MappedRanges ranges;
  uintptr_t n = 0;
  while (ranges.is_complete()) {
    ++n;
    ranges.Add(At(100 * n), 10, vm);
    ASSERT_LT(n, 1000u);
  }
  EXPECT_GT(n, 10u);
  // Earlier ranges are unchanged.
  const Pairs listed = Listed(&ranges);
  ASSERT_EQ(listed.size(), n - 1);
  for (uintptr_t i = 1; i < n; ++i) EXPECT_EQ(listed[i - 1], std::make_pair(100 * i, 100 * i + 10));
  EXPECT_FALSE(ranges.is_complete());
}

// The array's own mapping is the allocator's, too, and stays listed when the array moves.
TEST(MappedRangesTest, ListsItsOwnMemory) {
  SystemVirtualMemory vm;
  MappedRanges ranges;
  constexpr uintptr_t kMany = 20'000;
  for (uintptr_t i = 1; i <= kMany; ++i) ranges.Add(At(100 * i), 10, vm);
  EXPECT_TRUE(ranges.is_complete());
  const Pairs listed = Listed(&ranges);
  ASSERT_EQ(listed.size(), kMany + 1);
  const auto& [start, end] = listed.back();
  EXPECT_GE(end - start, kMany * sizeof(AddressRange));
  // The mapping contains the array, which begins with the first range.
  EXPECT_EQ(reinterpret_cast<const AddressRange*>(start)->start, 100u);
  EXPECT_EQ(reinterpret_cast<const AddressRange*>(start)->end, 110u);
  ranges.CheckInvariants();
}

// Compares with one bit for each address.
TEST(MappedRangesTest, RandomOperations) {
  SeededRandom random(9001);
  SystemVirtualMemory vm;
  constexpr uintptr_t kAddresses = 4000;
  for (int round = 0; round < 20; ++round) {
    MappedRanges ranges;
    std::vector<bool> model(kAddresses + 1);
    for (int i = 0; i < 2000; ++i) {
      const uintptr_t start = 1 + random.Below(kAddresses - 1);
      const uintptr_t bytes = 1 + random.Below(round % 2 == 0 ? 8 : kAddresses - start);
      const uintptr_t end = std::min(start + bytes, kAddresses);
      const bool add = random.Below(2) == 0;
      if (add) {
        ranges.Add(At(start), end - start, vm);
      } else {
        ranges.Remove(At(start), end - start, vm);
      }
      for (uintptr_t a = start; a < end; ++a) model[a] = add;
      ranges.CheckInvariants();
      if (i % 50 != 0) continue;
      Pairs expected;
      for (uintptr_t a = 1; a < kAddresses; ++a) {
        if (!model[a]) continue;
        if (!model[a - 1]) expected.emplace_back(a, a);
        expected.back().second = a + 1;
      }
      Pairs listed = Listed(&ranges);
      // The last range may be the mapping of the array itself.
      if (!listed.empty() && listed.back().first > kAddresses) listed.pop_back();
      ASSERT_EQ(listed, expected) << "round " << round << ", operation " << i;
    }
    EXPECT_TRUE(ranges.is_complete());
  }
}

}  // namespace
}  // namespace tcmalloc
