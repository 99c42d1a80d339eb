// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "image/image.h"
#include "report/profile_formats.h"

namespace cli {
namespace {

std::string VarintOf(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string NumberField(uint64_t field, uint64_t value) {
  return VarintOf(field << 3) + VarintOf(value);
}
std::string TextField(uint64_t field, const std::string& text) {
  return VarintOf(field << 3 | 2) + VarintOf(text.size()) + text;
}

// main calls f, which the compiler has inlined into g's location; another stack has no names.
std::string ExampleProfile(uint64_t bytes) {
  std::string profile;
  for (const uint64_t unit : {1, 2}) {
    profile += TextField(1, NumberField(1, 3) + NumberField(2, unit));
  }
  // The first sample has packed numbers, the second one single numbers.
  profile += TextField(
      2, TextField(1, VarintOf(7) + VarintOf(8)) + TextField(2, VarintOf(1) + VarintOf(bytes)));
  profile += TextField(2, NumberField(1, 9) + NumberField(2, 1) + NumberField(2, 10));
  profile += TextField(4, NumberField(1, 7) + NumberField(3, 0x1234) +
                              TextField(4, NumberField(1, 2)) + TextField(4, NumberField(1, 3)));
  profile += TextField(4, NumberField(1, 8) + TextField(4, NumberField(1, 1)));
  profile += TextField(4, NumberField(1, 9) + NumberField(3, 0xabcd));
  for (const uint64_t function : {1, 2, 3}) {
    profile += TextField(5, NumberField(1, function) + NumberField(2, 3 + function));
  }
  for (const char* const text : {"", "count", "bytes", "inuse", "main", "f", "g"}) {
    profile += TextField(6, text);
  }
  return profile;
}

TEST(PprofReaderTest, ReadsStacks) {
  const std::map<std::string, double> wanted = {{"main;g;f", 4096}, {"0xabcd", 10}};
  EXPECT_EQ(ReadPprof(ExampleProfile(4096)), wanted);
  EXPECT_EQ(ReadPprof(Gzip(ExampleProfile(4096))), wanted);
}

TEST(PprofReaderTest, RefusesOtherFiles) {
  for (const std::string& bytes : {std::string(), std::string("\x1f\x8b"), std::string("text"),
                                   Gzip("text"), std::string(100, '\xff')}) {
    EXPECT_EQ(ReadPprof(bytes), std::nullopt);
  }
  const std::string whole = Gzip(ExampleProfile(1));
  EXPECT_EQ(ReadPprof(whole.substr(0, whole.size() / 2)), std::nullopt);
}

// A kilobyte of such a file would need gigabytes: a stack with one long name many times.
TEST(PprofReaderTest, LongStacksOfASmallFile) {
  std::string profile = TextField(1, NumberField(2, 1)) + TextField(6, "") + TextField(6, "bytes");
  profile += TextField(6, std::string(1 << 20, 'a'));
  profile += TextField(5, NumberField(1, 1) + NumberField(2, 2));
  profile += TextField(4, NumberField(1, 1) + TextField(4, NumberField(1, 1)));
  profile += TextField(2, TextField(1, std::string(300, '\1')) + TextField(2, VarintOf(5)));
  EXPECT_THROW(ReadPprof(Gzip(profile)), Failure);
}

TEST(PprofReaderTest, DamageDoesNoHarm) {
  const std::string whole = ExampleProfile(4096);
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole.substr(0, random() % (whole.size() + 1));
    for (unsigned n = random() % 4; n > 0 && !damaged.empty(); --n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    static_cast<void>(ReadPprof(damaged));
  }
}

}  // namespace
}  // namespace cli
