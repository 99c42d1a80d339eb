// SPDX-License-Identifier: BSD-3-Clause
// PageHeapFuzzTest compares SpanStore, as a part of a page heap, with a model. Here are its
// policies.
#include "page_heap/span_store.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "page_heap/governor.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

constexpr Length KiB(size_t n) { return Length((n << 10) >> kPageShift); }

// Neither what is spare nor a sixteenth of what was needed is saved.
TEST(SpacePolicyTest, Bounds) {
  EXPECT_FALSE(SavesSpace(MiB(64), MiB(0), kMaxGrowth));
  EXPECT_TRUE(SavesSpace(MiB(64) + Length(1), MiB(0), kMaxGrowth));
  EXPECT_FALSE(SavesSpace(MiB(160 + 10 + 64), MiB(160), kMaxGrowth));
  EXPECT_TRUE(SavesSpace(MiB(160 + 10 + 64) + Length(1), MiB(160), kMaxGrowth));
}

TEST(NearRunTest, SmallHeapsHaveShortRuns) {
  EXPECT_EQ(NearRun(Length(0), 0), KiB(1024));  // no shards and no run begun
  EXPECT_EQ(NearRun(Length(0), 1), KiB(256));
  EXPECT_EQ(NearRun(MiB(7), 1), KiB(256));
  EXPECT_EQ(NearRun(MiB(8), 1), KiB(512));
  EXPECT_EQ(NearRun(MiB(15), 1), KiB(512));
  EXPECT_EQ(NearRun(MiB(16), 1), KiB(1024));
  EXPECT_EQ(NearRun(MiB(2048), 1), KiB(1024));
}

// In heaps of all sizes, runs are not too short for the cache, and their sum is bounded.
TEST(NearRunTest, Bounds) {
  for (size_t shards = 1; shards <= 64; ++shards) {
    for (size_t mib = 1; mib < 4096; mib += 7) {
      const Length run = NearRun(MiB(mib), shards);
      EXPECT_GE(run, KiB(256));
      EXPECT_LE(run, KiB(1024));
      if (run > KiB(256)) {
        EXPECT_LE(run.pages() * shards * 16, MiB(mib).pages());
      }
    }
  }
}

}  // namespace
}  // namespace tcmalloc
