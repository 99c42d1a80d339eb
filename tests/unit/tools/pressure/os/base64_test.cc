// SPDX-License-Identifier: BSD-3-Clause
#include "tools/pressure/os/base64.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace tcmalloc {
namespace {

std::optional<std::string> Decode(std::string_view text, size_t room = 1000) {
  std::vector<char> bytes(room);
  const std::optional<size_t> length = DecodeBase64(text, bytes.data(), room);
  if (!length.has_value()) return std::nullopt;
  return std::string(bytes.data(), *length);
}

// A trigger as systemd encodes it, with a final zero.
TEST(Base64Test, DecodesATrigger) {
  const std::string trigger("some 200000 2000000\0", 20);
  EXPECT_EQ(Decode("c29tZSAyMDAwMDAgMjAwMDAwMAA="), trigger);
  EXPECT_EQ(Decode("//79"), "\xff\xfe\xfd");
}

TEST(Base64Test, NeverWritesBeyondTheBuffer) {
  EXPECT_EQ(Decode("Zm9vYmFy", 6), "foobar");
  EXPECT_EQ(Decode("Zm9vYmFy", 5), std::nullopt);
  EXPECT_EQ(Decode("Zm9vYmFy", 0), std::nullopt);
  EXPECT_EQ(Decode("", 0), "");
  char bytes[4] = {'x', 'x', 'x', 'x'};
  EXPECT_EQ(DecodeBase64("Zm9vYmFy", bytes, 3), std::nullopt);
  EXPECT_EQ(bytes[3], 'x');
}

}  // namespace
}  // namespace tcmalloc
