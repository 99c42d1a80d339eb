// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "central/central_free_list.h"

namespace tcmalloc {
namespace {

constexpr size_t kIdle = kIdleAfterNewSpans;

size_t PlaceOf(RefillSource source) {
  return static_cast<size_t>(std::find(std::begin(kRefillOrder), std::end(kRefillOrder), source) -
                             kRefillOrder);
}

TEST(RefillOrderTest, ANewSpanAfterWhatMaySafelyBeTaken) {
  const size_t fresh = PlaceOf(RefillSource::kNewSpan);
  EXPECT_LT(PlaceOf(RefillSource::kKeptSpan), fresh);
  EXPECT_LT(PlaceOf(RefillSource::kEndedThreads), fresh);
  EXPECT_LT(PlaceOf(RefillSource::kIdleThreads), fresh);
}

// Except when there is no other memory, no source takes parts of line batches from a living thread,
// nor anything from a thread that allocates.
TEST(RefillOrderTest, LivingThreadsKeepTheirLines) {
  for (const RefillSource source : kRefillOrder) {
    if (source == RefillSource::kAnyShard) break;
    for (size_t new_spans = 0; new_spans < 100; ++new_spans) {
      const Takeable take =
          TakeFromOther(source, {.has_thread = true, .new_spans_since_use = new_spans});
      EXPECT_NE(take, Takeable::kAny);
      if (new_spans < kIdle) {
        EXPECT_EQ(take, Takeable::kNothing);
      }
    }
  }
}

TEST(RefillOrderTest, WhatEachSourceGives) {
  for (const size_t new_spans : {kIdle, kIdle + 1, SIZE_MAX}) {
    EXPECT_EQ(TakeFromOther(RefillSource::kIdleThreads, {true, new_spans}), Takeable::kWholeGroups);
  }
  for (const size_t new_spans : {size_t{0}, kIdle, SIZE_MAX}) {
    EXPECT_EQ(TakeFromOther(RefillSource::kEndedThreads, {false, new_spans}), Takeable::kAny);
  }
  // Nothing is left before an allocation fails.
  EXPECT_EQ(PlaceOf(RefillSource::kAnyShard), std::size(kRefillOrder) - 1);
  for (const bool has_thread : {false, true}) {
    EXPECT_EQ(TakeFromOther(RefillSource::kAnyShard, {has_thread, 0}), Takeable::kAny);
  }
}

}  // namespace
}  // namespace tcmalloc
