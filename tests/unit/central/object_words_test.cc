// SPDX-License-Identifier: BSD-3-Clause
#include "central/object_words.h"

#include <gtest/gtest.h>

#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

TEST(ObjectWordsTest, PrependsTheObjectsOfAMaskInReverse) {
  SeededRandom random(1);
  for (const size_t object_size : {size_t{8}, size_t{48}, size_t{64}, size_t{262144}}) {
    for (int step = 0; step < 500; ++step) {
      uint64_t mask = random.Next();
      if (random.OneIn(4)) mask = ~uint64_t{0};
      if (random.OneIn(4)) mask &= random.Next() & random.Next();
      if (random.OneIn(8)) mask = 0;
      constexpr uintptr_t kFirst = static_cast<uintptr_t>(0x7000'4000'0000);
      // The array has one more slot, which must stay unchanged.
      std::vector<void*> expected{nullptr};
      for (size_t bit = kBitsPerWord; bit-- > 0;) {
        if (TestBit(&mask, bit)) expected.push_back(At(kFirst + bit * object_size));
      }
      std::vector<void*> out(expected.size());
      void** const begin = PrependObjects({kFirst, mask}, object_size, out.data() + out.size());
      ASSERT_EQ(begin, out.data() + 1);
      ASSERT_EQ(out, expected);
    }
  }
}

// Compares with the definition, object by object.
TEST(ObjectWordsTest, NeighboursAreThoseInOneDirectionWithinTheWord) {
  SeededRandom random(2);
  size_t ascending = 0;
  size_t descending = 0;
  for (int step = 0; step < 20'000; ++step) {
    const size_t size = random.OneIn(2) ? 48 : 64;
    const size_t word_objects = random.OneIn(2) ? kBitsPerWord : random.Between(1, kBitsPerWord);
    const size_t bit = random.Below(word_objects);
    const size_t n = random.Between(1, 80);
    constexpr uintptr_t kWord = static_cast<uintptr_t>(0x7000'4000'0000);
    // The objects ascend or descend, with a jump now and then.
    std::vector<void*> objects;
    uintptr_t address = kWord + bit * size;
    const int direction = static_cast<int>(random.Below(5));
    for (size_t i = 0; i < n; ++i) {
      objects.push_back(At(address));
      if (direction < 2 ? !random.OneIn(40) : random.OneIn(2)) {
        address += direction % 2 == 0 ? size : -size;
      } else {
        address += random.OneIn(2) ? 0 : 16;
      }
    }
    size_t expected = 1;
    uint64_t mask = uint64_t{1} << bit;
    bool up = false;
    if (n > 1) {
      const uintptr_t first = reinterpret_cast<uintptr_t>(objects[0]);
      up = reinterpret_cast<uintptr_t>(objects[1]) == first + size;
      for (size_t i = 1; i < n; ++i) {
        const uintptr_t next = up ? first + i * size : first - i * size;
        const bool in_word = up ? bit + i < word_objects : bit >= i;
        if (!in_word || objects[i] != At(next)) break;
        mask |= uint64_t{1} << (up ? bit + i : bit - i);
        ++expected;
      }
    }
    size_t length = 0;
    ASSERT_EQ(LeadingNeighbours(objects.data(), n, size, bit, word_objects, &length), mask);
    ASSERT_EQ(length, expected);
    if (expected > 2) ++(up ? ascending : descending);
  }
  EXPECT_GT(ascending, 500u);
  EXPECT_GT(descending, 500u);
}

}  // namespace
}  // namespace tcmalloc
