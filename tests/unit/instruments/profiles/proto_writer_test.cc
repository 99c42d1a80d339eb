// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/proto_writer.h"

#include "instruments/profiles/profile_fixture.h"

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

}  // namespace
}  // namespace tcmalloc
