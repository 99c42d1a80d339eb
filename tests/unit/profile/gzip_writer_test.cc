// SPDX-License-Identifier: BSD-3-Clause
#include "profile/gzip_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "profile/profile_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// Packs `text` in pieces of up to `max_piece` bytes.
std::string Packed(const std::string& text, size_t max_piece, SeededRandom* random) {
  SystemVirtualMemory vm;
  Collector collector;
  ByteSink sink(&Collector::Take, &collector);
  GzipWriter writer(vm, &sink);
  EXPECT_TRUE(writer.Start());
  for (size_t at = 0; at < text.size();) {
    const size_t piece = std::min(random->Between(1, max_piece), text.size() - at);
    writer.Write(text.data() + at, piece);
    at += piece;
  }
  writer.Finish();
  EXPECT_TRUE(sink.ok());
  return collector.text;
}

// Unpacked by the program gzip, which also checks the checksum and the length.
std::string Unpacked(const std::string& packed) {
  char path[] = "/tmp/gzip_writer_test.XXXXXX";
  const int fd = mkstemp(path);
  EXPECT_GE(fd, 0);
  EXPECT_EQ(write(fd, packed.data(), packed.size()), static_cast<ssize_t>(packed.size()));
  close(fd);
  FILE* const pipe = popen((std::string("gzip -dc < ") + path).c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0);
  unlink(path);
  return text;
}

void ExpectRoundTrip(const std::string& text, size_t max_piece, SeededRandom* random) {
  // Not EXPECT_EQ, which would print both.
  EXPECT_TRUE(Unpacked(Packed(text, max_piece, random)) == text)
      << text.size() << " bytes in pieces of " << max_piece;
}

TEST(GzipWriterTest, ShortTexts) {
  SeededRandom random(21);
  for (const char* const text :
       {"", "a", "ab", "abc", "abcd", "abcdabcd", "aaaaaaaaaaaaaaaaaaaa"}) {
    ExpectRoundTrip(text, 3, &random);
  }
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  ExpectRoundTrip(all + all, 100, &random);
}

// Every length of a repetition, at distances of every magnitude.
TEST(GzipWriterTest, RepetitionsOfAllLengthsAndDistances) {
  SeededRandom random(22);
  std::string text;
  for (size_t length = 1; length <= 300; ++length) {
    std::string piece;
    for (size_t i = 0; i < length; ++i) piece += static_cast<char>(random.Next());
    text += piece;
    const size_t distance = size_t{1} << random.Below(14);
    for (size_t i = 0; i < distance; ++i) text += static_cast<char>(random.Next());
    text += piece;
  }
  ExpectRoundTrip(text, 5000, &random);
  for (size_t distance = 1; distance < 40'000; distance = distance * 5 / 3 + 1) {
    std::string pattern;
    for (size_t i = 0; i < distance; ++i) pattern += static_cast<char>(random.Next());
    ExpectRoundTrip(pattern + pattern + pattern, 70'000, &random);
  }
}

TEST(GzipWriterTest, TextsAroundBufferSizes) {
  SeededRandom random(23);
  for (const size_t around : {size_t{32} << 10, size_t{64} << 10, size_t{96} << 10}) {
    for (size_t size = around - 2; size <= around + 2; ++size) {
      std::string text;
      while (text.size() < size) text += static_cast<char>('a' + random.Below(4));
      ExpectRoundTrip(text, 100'000, &random);
    }
  }
}

TEST(GzipWriterTest, LongTexts) {
  SeededRandom random(24);
  std::string noise, few, zeroes(700'000, '\0');
  while (noise.size() < 300'000) noise += static_cast<char>(random.Next());
  while (few.size() < 1'000'000) few.append(random.Below(50), static_cast<char>(random.Below(5)));
  ExpectRoundTrip(noise, 10, &random);
  ExpectRoundTrip(few, 1000, &random);
  ExpectRoundTrip(zeroes, 200'000, &random);
}

TEST(GzipWriterTest, CompressesText) {
  SeededRandom random(25);
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "frame " + std::to_string(random.Below(100)) + ";";
  EXPECT_LT(Packed(text, 1000, &random).size(), text.size() / 3);
  // Not much longer without repetitions.
  std::string noise;
  while (noise.size() < 100'000) noise += static_cast<char>(random.Next());
  EXPECT_LT(Packed(noise, 1000, &random).size(), noise.size() * 17 / 16 + 100);
}

TEST(GzipWriterTest, WithoutMemory) {
  FakeVirtualMemory vm;
  vm.FailMap(1);
  Collector collector;
  ByteSink sink(&Collector::Take, &collector);
  GzipWriter writer(vm, &sink);
  EXPECT_FALSE(writer.Start());
  EXPECT_TRUE(collector.text.empty());
}

TEST(GzipWriterTest, WritesNothingAfterAFailure) {
  SystemVirtualMemory vm;
  Collector collector;
  collector.limit = 20'000;
  ByteSink sink(&Collector::Take, &collector);
  GzipWriter writer(vm, &sink);
  ASSERT_TRUE(writer.Start());
  SeededRandom random(26);
  size_t accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const char c = static_cast<char>(random.Next());
    accepted += GzipWriter::Sink(&c, 1, &writer);
  }
  writer.Finish();
  EXPECT_FALSE(sink.ok());
  EXPECT_LT(accepted, 200'000u);
  EXPECT_EQ(collector.refusals, 1u);
}

}  // namespace
}  // namespace tcmalloc
