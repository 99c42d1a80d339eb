// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "os/memory/heap_memory.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// The model has the kind under which each unit of an address space was listed.
class MemoryRangesTest : public testing::Test {
 protected:
  static constexpr uintptr_t kBase = uintptr_t{1} << 30;
  static constexpr size_t kUnit = 4096;

  bool Add(size_t first, size_t units, MemoryKind kind) {
    if (!ranges_.Add(reinterpret_cast<void*>(kBase + first * kUnit), units * kUnit, kind, vm_)) {
      return false;
    }
    for (size_t i = first; i < first + units; ++i) model_[i] = kind;
    return true;
  }

  // PartAt may return a part that is shorter than necessary, but never a wrong kind.
  void Check(size_t first, size_t units) {
    size_t at = first;
    while (at < first + units) {
      const MemoryRanges::Part part =
          ranges_.PartAt(kBase + at * kUnit, (first + units - at) * kUnit);
      ASSERT_GT(part.bytes, 0u);
      ASSERT_EQ(part.bytes % kUnit, 0u);
      ASSERT_LE(at + part.bytes / kUnit, first + units);
      for (size_t i = 0; i < part.bytes / kUnit; ++i) {
        ASSERT_EQ(part.kind, model_[at + i]) << at + i;
      }
      at += part.bytes / kUnit;
    }
  }

  FakeVirtualMemory vm_;
  MemoryRanges ranges_;
  std::vector<MemoryKind> model_ = std::vector<MemoryKind>(size_t{1} << 16, MemoryKind::kAnonymous);
};

TEST_F(MemoryRangesTest, AdjacentRangesOfOneKindShareARecord) {
  for (size_t i = 0; i < 10000; ++i) {
    ASSERT_TRUE(Add(20000 + i, 1, MemoryKind::kKept));
    ASSERT_TRUE(Add(19999 - i, 1, MemoryKind::kKept));
  }
  EXPECT_EQ(vm_.map_calls(), 0u);
  EXPECT_EQ(ranges_.PartAt(kBase + 10000 * kUnit, 20000 * kUnit).bytes, 20000 * kUnit);
  Check(9000, 30000);
}

TEST_F(MemoryRangesTest, ManyScatteredRangesNeedMemoryForTheirRecords) {
  for (size_t i = 0; i < 10000; ++i) ASSERT_TRUE(Add(2 * i, 1, MemoryKind::kSharedFile)) << i;
  EXPECT_GT(vm_.map_calls(), 0u);
  Check(0, 21000);
  vm_.FailMap(1, FakeVirtualMemory::kForever);
  size_t more = 0;
  while (Add(30000 + 2 * more, 1, MemoryKind::kKept)) ++more;
  EXPECT_LT(more, 10000u);
  Check(0, 40000);
  // A range that joins another one can still be listed.
  EXPECT_TRUE(Add(1, 1, MemoryKind::kSharedFile));
  Check(0, 40000);
}

TEST_F(MemoryRangesTest, Random) {
  SeededRandom random(54);
  for (int i = 0; i < 3000; ++i) {
    const size_t first = random.Below(60000);
    const size_t units = random.Between(1, 40);
    bool is_free = true;
    for (size_t j = first; j < first + units; ++j) is_free &= model_[j] == MemoryKind::kAnonymous;
    if (is_free) {
      ASSERT_TRUE(Add(first, units, static_cast<MemoryKind>(random.Between(1, 3))));
    }
    Check(random.Below(60000), random.Between(1, 2000));
  }
}

}  // namespace
}  // namespace tcmalloc
