// SPDX-License-Identifier: BSD-3-Clause
#include "tools/pressure/os/base64.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Encodes bit by bit.
std::string Encode(std::string_view bytes) {
  std::string bits;
  for (const char c : bytes) {
    for (int i = 7; i >= 0; --i) bits += (static_cast<unsigned char>(c) >> i & 1) != 0 ? '1' : '0';
  }
  while (bits.size() % 6 != 0) bits += '0';
  std::string text;
  for (size_t i = 0; i < bits.size(); i += 6) {
    text += kAlphabet[std::stoul(bits.substr(i, 6), nullptr, 2)];
  }
  while (text.size() % 4 != 0) text += '=';
  return text;
}

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

TEST(Base64Test, RejectsOtherText) {
  for (const char* const text :
       {"Z",    "Zg",   "Zg=",      "Zm9",    "Zm9vY",   "=",        "==",       "===",
        "====", "Z===", "Zg==Zg==", "Zg==\n", "Zm9v\n",  "Zm 9v",    "Zm9v    ", "Zm9-",
        "Zm9_", "=Zg=", "Z=g=",     "Zm9=v",  "Zm\x80v", "Zm9v====", "@@@@",     "[[[[",
        "````", "{{{{", "----",     "....",   "::::"}) {
    EXPECT_EQ(Decode(text), std::nullopt) << text;
  }
  EXPECT_EQ(Decode(std::string_view("Zm\0v", 4)), std::nullopt);
  // Unused bits must be 0, so that the same bytes have only one spelling.
  EXPECT_EQ(Decode("Zh=="), std::nullopt);
  EXPECT_EQ(Decode("Zm9="), std::nullopt);
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

// Accepted text is the only spelling of its bytes.
TEST(Base64Test, SurvivesRandomText) {
  SeededRandom random(6465);
  int taken = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::vector<char> text(random.Below(5) * 4 + random.OneIn(10));
    for (char& c : text) c = kAlphabet[random.Below(64)];
    for (size_t at = text.size(); at > 0 && random.OneIn(2);) text[--at] = '=';
    if (!text.empty() && random.OneIn(10)) text[random.Below(text.size())] = '\xff';
    const std::string_view view(text.data(), text.size());
    const std::optional<std::string> bytes = Decode(view);
    if (!bytes.has_value()) continue;
    ++taken;
    ASSERT_EQ(Encode(*bytes), view);
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace tcmalloc
