// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "central/shard.h"

namespace tcmalloc {
namespace {

TEST(SpanOwnerTest, KeepsEachClassAndShardApart) {
  for (size_t i = 0; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    for (size_t shard = 0; shard < SpanOwner::kMaxShards; ++shard) {
      for (const bool counted : {false, true}) {
        Span span;
        SpanOwner(c, shard, counted).StoreIn(&span);
        const SpanOwner owner = SpanOwner::Of(&span);
        ASSERT_EQ(owner.size_class(), c);
        ASSERT_EQ(owner.shard(), shard);
        ASSERT_EQ(owner.counted(), counted && c != SizeClass::kNone);
        ASSERT_EQ(owner, SpanOwner(c, shard, counted));
        ASSERT_NE(owner, SpanOwner(c, shard, !counted));
        ASSERT_TRUE(owner.Is(c, shard));
        ASSERT_FALSE(owner.Is(c, shard ^ 1));
        ASSERT_FALSE(owner.Is(c, shard ^ (SpanOwner::kMaxShards / 2)));
        ASSERT_FALSE(owner.Is(static_cast<SizeClass>((i + 1) % kNumSizeClasses), shard));
      }
    }
  }
}

}  // namespace
}  // namespace tcmalloc
