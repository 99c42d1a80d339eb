// SPDX-License-Identifier: BSD-3-Clause
#include "report/difference.h"

#include <gtest/gtest.h>

#include <string>

#include "image/image.h"

namespace cli {
namespace {

constexpr char kBefore[] = R"({"pid":7,"name":"server","time":"t1","in_use_bytes":1048576,
  "spans_in_use":10,"page_size_bytes":8192,
  "size_classes":[{"object_size_bytes":48,"spans":1,"in_use_objects":10,
                   "thread_cache_objects":100,"central_cache_objects":0}]})";
constexpr char kAfter[] = R"({"pid":7,"name":"server","time":"t2","in_use_bytes":3145728,
  "spans_in_use":9,"page_size_bytes":8192,
  "size_classes":[{"object_size_bytes":48,"spans":1,"in_use_objects":1010,
                   "thread_cache_objects":50,"central_cache_objects":0},
                  {"object_size_bytes":64,"spans":1,"in_use_objects":1}]})";

TEST(DifferenceTest, LinesOfJsonAndArrays) {
  EXPECT_EQ(ParseFigures("{\"in_use_bytes\":1}\n{\"in_use_bytes\":2}\n{\"in_use", "a")
                .bytes.at("in_use_bytes"),
            2);
  const Figures list = ParseFigures(R"([{"pid":7,"in_use_bytes":5},{"pid":8}])", "a");
  EXPECT_EQ(list.bytes.at("processes 7, in_use_bytes"), 5);
  const Figures shares = ParseFigures(R"({"shares":[{"name":"stacks","bytes":5}]})", "a");
  EXPECT_EQ(shares.bytes.at("shares stacks"), 5);
}

TEST(DifferenceTest, AnythingElseIsRefused) {
  for (const char* const text : {"", "hello", "hello world\n", "12", "\"text\"", "a 1\nb\n"}) {
    EXPECT_THROW(ParseFigures(text, "file"), Failure) << text;
  }
  // Deep nesting and unexpected types are no errors.
  std::string deep = "1";
  for (int i = 0; i < 2000; ++i) deep = "{\"a\":" + deep + "}";
  EXPECT_TRUE(ParseFigures(deep, "file").bytes.empty());
  EXPECT_TRUE(
      ParseFigures(R"({"size_classes":[{"object_size_bytes":"x"},3,[]]})", "f").bytes.empty());
}

}  // namespace
}  // namespace cli
