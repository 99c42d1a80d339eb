// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "central/shard.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

// The model's free count and state of a span.
struct Entry {
  Span span;
  size_t free_count = 0;
  bool split = false;
  RankedSpans::Place place = RankedSpans::kNowhere;
};

size_t LowestRank(const std::vector<Entry>& entries, bool split) {
  size_t lowest = SIZE_MAX;
  for (const Entry& e : entries) {
    if (e.place == RankedSpans::kNowhere || e.split != split) continue;
    lowest = std::min(lowest, static_cast<size_t>(std::bit_width(e.free_count)));
  }
  return lowest;
}

TEST(RankedSpansTest, TheFullestSpanOfEachKindIsFirst) {
  SeededRandom random(11);
  RankedSpans spans;
  EXPECT_EQ(spans.FullestSplit(), nullptr);
  EXPECT_EQ(spans.FullestNotSplit(), nullptr);
  std::vector<Entry> entries(12);
  const auto entry_of = [&](const Span* span) {
    return std::find_if(entries.begin(), entries.end(),
                        [&](const Entry& e) { return &e.span == span; });
  };
  for (int step = 0; step < 20'000; ++step) {
    Entry& e = entries[random.Below(entries.size())];
    RankedSpans::Place to = RankedSpans::kNowhere;
    if (!random.OneIn(3)) {
      // Each power of two gets about as many counts as another.
      e.free_count = random.Between(1, (size_t{2} << random.Below(14)) - 1);
      ASSERT_LE(e.free_count, RankedSpans::kMaxFreeCount);
      e.split = random.OneIn(2);
      to = RankedSpans::PlaceFor(e.free_count, e.split);
      ASSERT_NE(to, RankedSpans::kNowhere);
    }
    spans.Move(&e.span, e.place, to);
    e.place = to;
    for (const bool split : {false, true}) {
      const Span* const fullest = split ? spans.FullestSplit() : spans.FullestNotSplit();
      const size_t lowest = LowestRank(entries, split);
      ASSERT_EQ(fullest == nullptr, lowest == SIZE_MAX);
      if (fullest == nullptr) continue;
      const auto found = entry_of(fullest);
      ASSERT_NE(found, entries.end());
      ASSERT_EQ(found->split, split);
      ASSERT_EQ(static_cast<size_t>(std::bit_width(found->free_count)), lowest);
    }
    size_t listed = 0;
    spans.ForEach([&](const Span* span, RankedSpans::Place place) {
      EXPECT_EQ(entry_of(span)->place, place);
      ++listed;
    });
    ASSERT_EQ(listed,
              static_cast<size_t>(std::count_if(entries.begin(), entries.end(), [](const Entry& x) {
                return x.place != RankedSpans::kNowhere;
              })));
  }
}

TEST(RankedSpansTest, ASpanThatStaysInItsPlaceIsNotTouched) {
  RankedSpans spans;
  Span a;
  Span b;
  const RankedSpans::Place place = RankedSpans::PlaceFor(5, false);
  EXPECT_EQ(place, RankedSpans::PlaceFor(7, false));
  EXPECT_NE(place, RankedSpans::PlaceFor(8, false));
  EXPECT_NE(place, RankedSpans::PlaceFor(5, true));
  spans.Move(&a, RankedSpans::kNowhere, place);
  spans.Move(&b, RankedSpans::kNowhere, place);
  ASSERT_EQ(spans.FullestNotSplit(), &b);
  spans.Move(&a, place, place);
  EXPECT_EQ(spans.FullestNotSplit(), &b);
}

}  // namespace
}  // namespace tcmalloc
