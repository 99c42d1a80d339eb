// SPDX-License-Identifier: BSD-3-Clause
#include "report/damage_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cli {
namespace {

NameFrames Names() {
  return [](Address call) -> const std::vector<SourceFrame>& {
    static std::vector<SourceFrame> frames(1);
    frames[0].function = call == 0xfff ? "Allocates" : "Frees";
    return frames;
  };
}

DamagedObject WriteAfterFree() {
  return {.header = {.state = DebugHeader::State::kFreed,
                     .object = 0x7000,
                     .size = 24,
                     .allocated_by = 2,
                     .freed_by = 2},
          .damage = {.kind = Damage::Kind::kAfterFree,
                     .offset = 3,
                     .bytes = 2,
                     .found = 0x41,
                     .expected = 0xcd},
          .allocated_at = {0x1000},
          .freed_at = {0x2000},
          .before = {}};
}

HeaderlessMemory Headerless(Address start, char contents) {
  return {.raw = {.start = start, .bytes = 144},
          .contents = std::vector<char>(96, contents),
          .before = ObjectBefore{.header = {.object = 0x6000, .size = 7, .intact = true},
                                 .allocated_at = {0x1000}}};
}

TEST(DamageReportTest, NamesTheObjectAndItsStacks) {
  HeapDamage found;
  found.damaged = 1;
  found.damaged_objects.push_back(WriteAfterFree());
  EXPECT_EQ(DamageText(found, Names()),
            "\n0x7000: the freed object of 24 bytes was written after the free, at offset 3: found "
            "0x41, expected 0xcd, and up to 1 byte more\n"
            "  allocated by operator new[]:\n    Allocates\n"
            "  freed by operator delete[]:\n    Frees\n");
  nlohmann::ordered_json json;
  AddDamageJson(found, &json);
  EXPECT_EQ(json["list"][0]["kind"], "after free");
  EXPECT_EQ(json["list"][0]["damaged_bytes"], 2);
  EXPECT_EQ(json["list"][0]["freed_at"][0], 0x2000);
}

TEST(DamageReportTest, CountsWhatItDoesNotShow) {
  HeapDamage found;
  found.damaged = 8;
  found.damaged_objects.push_back(WriteAfterFree());
  EXPECT_NE(DamageText(found, Names()).find("\nand 7 more\n"), std::string::npos);
}

TEST(DamageReportTest, SaysWhatWasNotChecked) {
  HeapDamage found;
  EXPECT_EQ(UncheckedText(found, "why"), "");
  found.headerless = 1;
  found.headerless_memory.push_back(Headerless(0x7000, 1));
  found.unreadable = 2;
  EXPECT_EQ(UncheckedText(found, "why"),
            "1 object without a header, which is just being allocated or was overwritten: 0x7000; "
            "the memory of 2 objects is not readable: why");
  found.closed = 3;
  found.changing = 4;
  found.live = 1;
  EXPECT_EQ(CheckedText(found),
            "Checked 1 object in use and 0 in the queue of freed objects.\n"
            "3 objects freed at a page fence: nothing can write to them.\n"
            "4 objects being allocated or freed: not checked.\n");
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
  EXPECT_EQ(DamageText(second, Names()),
            "\n0x7060: the object has a damaged header: something wrote before its start, or past "
            "the end of the object before it\n"
            "  the object before it: 7 bytes at 0x6000\n  allocated by malloc:\n    Allocates\n");
}

}  // namespace
}  // namespace cli
