// SPDX-License-Identifier: BSD-3-Clause
#include "tools/annotations/registered_roots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "os/memory/virtual_memory.h"
#include "testing/no_memory.h"

namespace tcmalloc {
namespace {

const void* At(uintptr_t address) { return reinterpret_cast<const void*>(address); }

std::vector<std::pair<uintptr_t, uintptr_t>> Listed(RegisteredRoots* roots) {
  std::vector<AddressRange> copy(roots->size());
  EXPECT_EQ(roots->CopyTo(copy.data(), copy.size()), copy.size());
  std::vector<std::pair<uintptr_t, uintptr_t>> pairs;
  for (const AddressRange& range : copy) pairs.emplace_back(range.start, range.end);
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

using Pairs = std::vector<std::pair<uintptr_t, uintptr_t>>;

TEST(RegisteredRootsTest, ListsRegisteredRanges) {
  SystemVirtualMemory vm;
  RegisteredRoots roots;
  EXPECT_EQ(Listed(&roots), Pairs());
  EXPECT_TRUE(roots.Register(At(100), 10, vm));
  EXPECT_TRUE(roots.Register(At(50), 100, vm));
  EXPECT_EQ(Listed(&roots), (Pairs{{50, 150}, {100, 110}}));
  EXPECT_FALSE(roots.Unregister(At(100), 11));
  EXPECT_FALSE(roots.Unregister(At(101), 9));
  EXPECT_TRUE(roots.Unregister(At(50), 100));
  EXPECT_FALSE(roots.Unregister(At(50), 100));
  EXPECT_EQ(Listed(&roots), (Pairs{{100, 110}}));
}

TEST(RegisteredRootsTest, RefusesInvalidRanges) {
  SystemVirtualMemory vm;
  RegisteredRoots roots;
  EXPECT_FALSE(roots.Register(At(100), 0, vm));
  EXPECT_FALSE(roots.Register(At(UINTPTR_MAX - 10), 11, vm));
  EXPECT_FALSE(roots.Register(At(100), SIZE_MAX, vm));
  EXPECT_EQ(roots.size(), 0u);
  EXPECT_TRUE(roots.Register(At(UINTPTR_MAX - 10), 10, vm));
}

TEST(RegisteredRootsTest, WithoutMemory) {
  NoMemory vm;
  RegisteredRoots roots;
  uintptr_t n = 0;
  while (roots.Register(At(16 * (n + 1)), 8, vm)) ASSERT_LT(++n, 1000u);
  EXPECT_GE(n, 16u);
  EXPECT_EQ(roots.size(), n);
  EXPECT_TRUE(roots.Unregister(At(16), 8));
  EXPECT_TRUE(roots.Register(At(8), 8, vm));
}

}  // namespace
}  // namespace tcmalloc
