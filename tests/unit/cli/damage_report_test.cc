// SPDX-License-Identifier: BSD-3-Clause
#include "report/damage_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cli {
namespace {

HeaderlessMemory Headerless(Address start, char contents) {
  return {.raw = {.start = start, .bytes = 144},
          .contents = std::vector<char>(96, contents),
          .before = ObjectBefore{.header = {.object = 0x6000, .size = 7, .intact = true},
                                 .allocated_at = {0x1000}}};
}

// Memory that has no header in two readings is damaged if it did not change between them.
TEST(HeapDamageTest, TwoLooks) {
  HeapDamage first, second;
  first.headerless = 2;
  first.headerless_memory = {Headerless(0x7000, 1), Headerless(0x8000, 1)};
  second.headerless = 3;
  second.headerless_memory = {Headerless(0x7000, 1), Headerless(0x8000, 2), Headerless(0x9000, 1)};
  MarkOverwritten(first, &second);
  EXPECT_EQ(second.headerless, 2u);
  ASSERT_EQ(second.headerless_memory.size(), 2u);
  EXPECT_EQ(second.headerless_memory[0].raw.start, 0x8000u);
  EXPECT_EQ(second.headerless_memory[1].raw.start, 0x9000u);
  EXPECT_EQ(second.damaged, 1u);
  ASSERT_EQ(second.damaged_objects.size(), 1u);
  EXPECT_EQ(second.damaged_objects[0].header.object, 0x7000u + 96);
}

}  // namespace
}  // namespace cli
