// SPDX-License-Identifier: BSD-3-Clause
#include "tools/profile/proto_writer.h"

#include "tools/profile/profile_fixture.h"

namespace tcmalloc {
namespace {

using namespace std::string_view_literals;

TEST(ProtoWriterTest, EncodesNumbers) {
  char buffer[100];
  TextWriter text(buffer, sizeof(buffer));
  ProtoWriter writer(&text);
  writer.Number(1, 0);  // not written
  writer.Number(1, 1);
  writer.Number(2, 127);
  writer.Number(15, 128);
  writer.Number(16, 300);
  writer.Number(3, UINT64_MAX);
  EXPECT_EQ(text.text(),
            "\x08\x01\x10\x7f\x78\x80\x01\x80\x01\xac\x02"
            "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv);
}

TEST(ProtoWriterTest, MessageIsPrecededByItsLength) {
  char buffer[300];
  TextWriter text(buffer, sizeof(buffer));
  ProtoWriter writer(&text);
  const std::string long_text(200, 'x');
  writer.Message(2, [&](ProtoWriter* outer) {
    outer->Number(1, 5);
    outer->Message(3, [&](ProtoWriter* inner) { inner->String(1, long_text); });
    outer->Message(4, [](ProtoWriter*) {});
  });
  const std::vector<std::string_view> outer = Texts(text.text(), 2);
  ASSERT_EQ(outer.size(), 1u);
  EXPECT_EQ(Numbers(outer[0], 1), std::vector<uint64_t>{5});
  ASSERT_EQ(Texts(outer[0], 3).size(), 1u);
  EXPECT_EQ(Texts(Texts(outer[0], 3)[0], 1), std::vector<std::string_view>{long_text});
  EXPECT_EQ(Texts(outer[0], 4), std::vector<std::string_view>{""});
}

}  // namespace
}  // namespace tcmalloc
