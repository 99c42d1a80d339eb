// SPDX-License-Identifier: BSD-3-Clause
#include "report/difference.h"

#include <gtest/gtest.h>

#include <string>

#include "image/image.h"

namespace cli {
namespace {

TEST(DifferenceTest, AnythingElseIsRefused) {
  for (const char* const text : {"", "hello", "hello world\n", "12", "\"text\"", "a 1\nb\n"}) {
    EXPECT_THROW(ParseFigures(text, "file"), Failure) << text;
  }
  // Deep nesting and unexpected types are no errors.
  std::string deep = "1";
  for (int i = 0; i < 2000; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_TRUE(ParseFigures(deep, "file").bytes.empty());
  deep = R"({"x":[{"name":)" + std::string(300'000, '[') + std::string(300'000, ']');
  EXPECT_EQ(ParseFigures(deep + R"(,"bytes":1}]})", "file").bytes.size(), 1u);
  EXPECT_TRUE(
      ParseFigures(R"({"size_classes":[{"object_size_bytes":"x"},3,[]]})", "f").bytes.empty());
}

}  // namespace
}  // namespace cli
