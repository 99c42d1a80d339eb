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

// A thread that looks for holes may find a span in a pool, whose pages were a span of small objects
// a moment ago.
TEST(SpanOwnerTest, ASpanInAPoolIsNotCounted) {
  for (size_t pool = 0; pool < SpanOwner::kMaxShards; ++pool) {
    Span span;
    span.owner.store(static_cast<uint16_t>(Span::kFirstPool + pool));
    EXPECT_FALSE(SpanOwner::Of(&span).counted());
    EXPECT_EQ(SpanOwner::Of(&span).size_class(), SizeClass::kNone);
  }
}

TEST(SpanOwnerTest, ANewSpanHasNone) {
  const Span span;
  EXPECT_EQ(SpanOwner::Of(&span), SpanOwner());
  EXPECT_EQ(SpanOwner().size_class(), SizeClass::kNone);
  EXPECT_FALSE(SpanOwner().counted());
}

}  // namespace
}  // namespace tcmalloc
