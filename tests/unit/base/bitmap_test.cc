// SPDX-License-Identifier: BSD-3-Clause
#include "base/bitmap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

TEST(BitmapTest, AgreesWithAVectorOfBools) {
  SeededRandom random(1);
  constexpr size_t kBits = 300;
  std::vector<uint64_t> words(WordsForBits(kBits));
  std::vector<bool> model(words.size() * kBitsPerWord);
  for (int step = 0; step < 20'000; ++step) {
    const size_t bit = random.Below(kBits);
    if (random.OneIn(2)) {
      SetBit(words.data(), bit);
      model[bit] = true;
    } else {
      ClearBit(words.data(), bit);
      model[bit] = false;
    }
    const size_t probe = random.Below(kBits);
    ASSERT_EQ(TestBit(words.data(), probe), model[probe]);
  }
}

TEST(BitmapTest, SetFirstBitsSetsThemAndClearsTheRestOfTheLastWord) {
  for (size_t bits = 0; bits <= 200; ++bits) {
    // The words are noise before the call. The word after the bitmap must stay unchanged.
    constexpr uint64_t kNoise = 0x5a5a5a5a5a5a5a5a;
    std::array<uint64_t, 5> words;
    words.fill(kNoise);
    SetFirstBits(words.data(), bits);
    for (size_t bit = 0; bit < WordsForBits(bits) * kBitsPerWord; ++bit) {
      ASSERT_EQ(TestBit(words.data(), bit), bit < bits) << bits;
    }
    for (size_t w = WordsForBits(bits); w < words.size(); ++w) ASSERT_EQ(words[w], kNoise) << bits;
  }
}

TEST(BitmapTest, BitRangeSetsOnlyItsBits) {
  for (size_t first = 0; first < kBitsPerWord; ++first) {
    for (size_t n = 1; first + n <= kBitsPerWord; ++n) {
      const uint64_t word = BitRange(first, n);
      for (size_t bit = 0; bit < kBitsPerWord; ++bit) {
        ASSERT_EQ(TestBit(&word, bit), bit >= first && bit < first + n) << first << " " << n;
      }
    }
  }
}

// Words of every density: some bits, all bits, runs of bits.
uint64_t RandomWord(SeededRandom& random) {
  switch (random.Below(6)) {
    case 0:
      return 0;
    case 1:
      return ~uint64_t{0};
    case 2:
      return random.Next() & random.Next();
    case 3:
      return random.Next() | random.Next() | random.Next();
    case 4: {
      const size_t first = random.Below(kBitsPerWord);
      return ~BitRange(first, random.Between(1, kBitsPerWord - first));
    }
    default:
      return random.Next();
  }
}

TEST(BitmapTest, LowestSetBitsAgreesWithACount) {
  SeededRandom random(2);
  for (int step = 0; step < 5'000; ++step) {
    const uint64_t word = RandomWord(random);
    const size_t n = random.Between(0, kBitsPerWord + 1);
    uint64_t expected = 0;
    size_t found = 0;
    for (size_t bit = 0; bit < kBitsPerWord && found < n; ++bit) {
      if (!TestBit(&word, bit)) continue;
      SetBit(&expected, bit);
      ++found;
    }
    ASSERT_EQ(LowestSetBits(word, n), expected) << std::hex << word << std::dec << " " << n;
  }
}

TEST(BitmapTest, WholeGroupsHaveAllBitsSet) {
  SeededRandom random(3);
  for (size_t size = 1; size < kBitsPerWord; size *= 2) {
    const BitGroups groups(size);
    ASSERT_EQ(groups.size(), size);
    for (int step = 0; step < 5'000; ++step) {
      const uint64_t word = RandomWord(random);
      uint64_t expected = 0;
      for (size_t first = 0; first < kBitsPerWord; first += size) {
        bool whole = true;
        for (size_t bit = first; bit < first + size; ++bit) whole = whole && TestBit(&word, bit);
        if (whole) expected |= BitRange(first, size);
      }
      ASSERT_EQ(groups.Whole(word), expected) << "groups of " << size << " in " << std::hex << word;
    }
  }
}

TEST(BitmapTest, FindsTheFirstSetAndClearBitFromAnyStart) {
  SeededRandom random(4);
  for (int step = 0; step < 2'000; ++step) {
    const size_t bits = random.Between(1, 200);
    std::vector<uint64_t> words(WordsForBits(bits));
    for (uint64_t& word : words) word = RandomWord(random);
    const size_t limit = random.Between(0, bits);
    for (size_t from = 0; from <= bits; ++from) {
      const auto first = [&](bool wanted) {
        size_t bit = from;
        while (bit < limit && TestBit(words.data(), bit) != wanted) ++bit;
        return std::min(bit, limit);
      };
      ASSERT_EQ(FindSetBit(words.data(), from, limit), first(true)) << from << " " << limit;
      ASSERT_EQ(FindClearBit(words.data(), from, limit), first(false)) << from << " " << limit;
    }
  }
}

TEST(BitmapTest, ARangeIsVisitedWordByWord) {
  for (size_t first = 0; first < 140; ++first) {
    for (size_t n = 0; n < 200; ++n) {
      std::vector<uint64_t> expected(8);
      for (size_t bit = first; bit < first + n; ++bit) SetBit(expected.data(), bit);
      std::vector<uint64_t> words(8);
      size_t next_word = 0;
      ForEachWordOfRange(first, n, [&](size_t w, uint64_t mask) {
        ASSERT_GE(w, next_word);
        ASSERT_NE(mask, 0u);
        next_word = w + 1;
        words[w] = mask;
      });
      ASSERT_EQ(words, expected) << first << " " << n;
    }
  }
}

}  // namespace
}  // namespace tcmalloc
