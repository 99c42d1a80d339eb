// SPDX-License-Identifier: BSD-3-Clause
#include "page/free_spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "testing/random.h"

namespace tcmalloc {
namespace {

// The spans in the order in which they were inserted.
class ListedSpans {
 public:
  void Insert(Span* span) { spans_.push_back(span); }
  void Remove(Span* span) { spans_.erase(std::find(spans_.begin(), spans_.end(), span)); }
  bool Contains(Span* span) const {
    return std::find(spans_.begin(), spans_.end(), span) != spans_.end();
  }

  // Returns the shortest span of at least `n` pages: among equal short ones the last inserted,
  // among equal long ones the lowest.
  Span* BestFit(Length n) const {
    Span* best = nullptr;
    for (Span* const span : spans_) {
      if (span->num_pages < n) continue;
      if (best == nullptr || span->num_pages < best->num_pages ||
          (span->num_pages == best->num_pages &&
           (span->num_pages.pages() <= FreeSpans::kMaxExactPages ||
            span->first_page < best->first_page))) {
        best = span;
      }
    }
    return best;
  }

  Length longest() const {
    Length longest;
    for (const Span* const span : spans_) longest = std::max(longest, span->num_pages);
    return longest;
  }
  Length total() const {
    Length total;
    for (const Span* const span : spans_) total += span->num_pages;
    return total;
  }
  size_t count() const { return spans_.size(); }
  size_t CountExact(Length n) const {
    return static_cast<size_t>(std::count_if(
        spans_.begin(), spans_.end(), [n](const Span* span) { return span->num_pages == n; }));
  }

 private:
  std::vector<Span*> spans_;
};

void Compare(const FreeSpans& free_spans, const ListedSpans& model, Length probe) {
  ASSERT_EQ(free_spans.FindBestFit(probe), model.BestFit(probe)) << probe.pages();
  Span* const longest = free_spans.FindLongest();
  ASSERT_EQ(longest == nullptr ? Length(0) : longest->num_pages, model.longest());
  ASSERT_EQ(free_spans.total(), model.total());
  ASSERT_EQ(free_spans.count(), model.count());
  if (probe.pages() <= FreeSpans::kMaxExactPages) {
    ASSERT_EQ(free_spans.CountExact(probe), model.CountExact(probe));
  }
}

// Most lengths are around the limit between lists and tree. There are few lengths, so that equal
// ones occur.
TEST(FreeSpansTest, AgreesWithAVector) {
  SeededRandom random(6);
  constexpr size_t kBorder = FreeSpans::kMaxExactPages;
  const size_t lengths[] = {1,       2,           3,           63,  64,  65,   kBorder - 1,
                            kBorder, kBorder + 1, kBorder + 2, 200, 500, 5000, size_t{1} << 25};
  std::vector<Span> spans(60);
  for (size_t i = 0; i < spans.size(); ++i) {
    spans[i].first_page = PageId((uintptr_t{i} * 7919 % spans.size()) << 8);
  }
  FreeSpans free_spans;
  ListedSpans model;
  for (int step = 0; step < 30'000; ++step) {
    Span* const span = &spans[random.Below(spans.size())];
    if (model.Contains(span)) {
      free_spans.Remove(span);
      model.Remove(span);
    } else {
      span->num_pages = Length(lengths[random.Below(std::size(lengths))]);
      free_spans.Insert(span);
      model.Insert(span);
    }
    const size_t near = lengths[random.Below(std::size(lengths))] + random.Below(3);
    ASSERT_NO_FATAL_FAILURE(Compare(free_spans, model, Length(near)));
  }
  for (Span& span : spans) {
    if (!model.Contains(&span)) continue;
    free_spans.Remove(&span);
    model.Remove(&span);
    ASSERT_NO_FATAL_FAILURE(Compare(free_spans, model, Length(1)));
  }
  EXPECT_EQ(free_spans.FindLongest(), nullptr);
}

TEST(FreeSpansTest, ZeroFilledIsEmpty) {
  const FreeSpans free_spans;
  EXPECT_EQ(free_spans.FindBestFit(Length(1)), nullptr);
  EXPECT_EQ(free_spans.FindBestFit(Length(SIZE_MAX / 2)), nullptr);
  EXPECT_EQ(free_spans.FindLongest(), nullptr);
  EXPECT_EQ(free_spans.total(), Length(0));
  EXPECT_EQ(free_spans.count(), 0u);
}

}  // namespace
}  // namespace tcmalloc
