// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "cli/fake_image.h"
#include "heap/record.h"

namespace cli {
namespace {

TEST(LayoutTest, ReadsStructuresFieldsAndConstants) {
  Layout layout;
  layout.Parse("S 32\n a 0 8\n b 8 16 T\n=c 18446744073709551615\nT 8\n x 4 4\n");
  EXPECT_EQ(layout.structure("S").bytes, 32u);
  EXPECT_EQ(layout.structure("S").field("b").offset, 8u);
  EXPECT_EQ(layout.structure("S").field("b").type, "T");
  EXPECT_EQ(layout.structure("T").field("x").bytes, 4u);
  EXPECT_EQ(layout.constant("c"), ~uint64_t{0});
  EXPECT_THROW(layout.structure("U"), NotPublished);
  EXPECT_THROW(layout.structure("S").field("z"), BadImage);
  EXPECT_THROW(layout.constant("z"), BadImage);
  layout.Parse("\033[1m 8\n \xff 0 8 \007\n");
  EXPECT_EQ(layout.structure("?[1m").field("?").type, "?");
}

TEST(LayoutTest, RejectsWhatIsNotWellFormed) {
  for (const char* text : {" a 0 8\n", "S\n", "S 8\n a 0 9\n", "S 8\n a 9 0\n", "S 8\n a 1 8\n",
                           "S 8\n a x 8\n", "S 8\n a 0\n", "=c\n", "=c 99999999999999999999\n",
                           "\n", "S 99999999999\n", "S 8\n a 18446744073709551615 2\n"}) {
    Layout layout;
    EXPECT_THROW(layout.Parse(text), BadImage) << text;
  }
  EXPECT_THROW(Layout().Parse("=" + std::string(1000, 'a') + " 1\n"), BadImage);
}

constexpr Address kAt = 0x10000;

// A root with the layout `text`, of a process of the given word size.
Root PutLayout(FakeImage* image, const std::string& text, size_t pointer_bytes) {
  image->Put(kAt, text);
  return {.format = 1, .pointer_bytes = pointer_bytes, .layout = kAt, .layout_bytes = text.size()};
}

TEST(RecordTest, ReadsFieldsOfBothWordSizes) {
  FakeImage image;
  const Root root = PutLayout(&image, "S 16\n a 0 4\n b 8 4\n p 4 8 T\nT 4\n t 0 4\n", 4);
  image.Put(0x20000, std::string("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0", 16));
  const Target target(image, root);
  const Record record = target.Load("S", 0x20000);
  EXPECT_EQ(record.Get("a"), 1u);
  EXPECT_EQ(record.Part("p").Get("t"), 2u);
  EXPECT_EQ(record.Part("p", 1).Get("t"), 3u);
  EXPECT_EQ(record.At("p", 1, 4), 3u);
  EXPECT_EQ(record.AddressOf("b"), 0x20008u);
  EXPECT_THROW(record.Part("p", 2), BadImage);
  EXPECT_THROW(record.At("p", 2, 4), BadImage);
  EXPECT_THROW(target.Load("S", 0x20001), BadImage);
}

TEST(RecordTest, FindsLocksAndChangesInAllParts) {
  FakeImage image;
  const Root root =
      PutLayout(&image, "S 16\n lock 0 4 Lock\n parts 4 12 P\nP 4\n moving 0 1 Change\n", 8);
  image.Put(0x20000, std::string("\5\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 16));
  const Target target(image, root);
  std::string found;
  size_t moving = 0;
  std::vector<Guard> guards;
  target.Load("S", 0x20000).AddGuards(&guards);
  for (const Guard& guard : guards) {
    found += guard.name + "=" + std::to_string(guard.value) + " ";
    EXPECT_EQ(guard.address, 0x20000 + (guard.bytes == 4 ? 0 : 4 + 4 * moving++));
  }
  EXPECT_EQ(found, "S.lock=5 P.moving=0 P.moving=7 P.moving=0 ");
}

TEST(RecordTest, NoHeapHasSoManyGuards) {
  FakeImage image;
  const Root root =
      PutLayout(&image, "S 40000\n p 0 40000 P\nP 1\n a 0 1 Lock\n b 0 1 Lock\n c 0 1 Lock\n", 8);
  image.Put(0x20000, std::string(40000, '\0'));
  std::vector<Guard> guards;
  EXPECT_THROW(Target(image, root).Load("S", 0x20000).AddGuards(&guards), BadImage);
}

}  // namespace
}  // namespace cli
