// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "central/central_cache.h"

namespace tcmalloc {
namespace {

struct alignas(32) Element {
  Element(SizeClass size_class, int& counter) : c(size_class), number(++counter) {}
  SizeClass c;
  int number;
};

TEST(PerSizeClassTest, OneForEachClassInOrder) {
  int counter = 0;
  PerSizeClass<Element> elements(counter);
  EXPECT_EQ(counter, static_cast<int>(kNumSizeClasses) - 1);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    EXPECT_EQ(elements[c].c, c);
    EXPECT_EQ(elements[c].number, static_cast<int>(i));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&elements[c]) % alignof(Element), 0u);
  }
}

}  // namespace
}  // namespace tcmalloc
