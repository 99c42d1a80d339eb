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
  // Whatever copies or prints such a value would exhaust the stack.
  constexpr size_t kDeep = 300'000;
  const std::string deep = std::string(kDeep, '[') + std::string(kDeep, ']');
  EXPECT_THROW(ParseFigures("{\"x\":[{\"name\":" + deep + "}]}", "file"), Failure);
  // Unexpected types are no errors.
  EXPECT_TRUE(
      ParseFigures(R"({"size_classes":[{"object_size_bytes":"x"},3,[]]})", "f").bytes.empty());
}

}  // namespace
}  // namespace cli
