// SPDX-License-Identifier: BSD-3-Clause
#include "page/free_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr size_t kNumSpans = 60;

// There are adjacent spans of 1 to 5 pages, and some of them are free. All results follow from
// that.
class FreeRunsTest : public testing::Test {
 protected:
  FreeRunsTest() {
    EXPECT_TRUE(map_->EnsureLeaves(kFirst, Length(6 * kNumSpans), vm_));
    PageId next = kFirst;
    for (size_t i = 0; i < kNumSpans; ++i) {
      spans_[i].first_page = next;
      spans_[i].num_pages = Length(1 + i % 5);
      map_->SetSpan(spans_[i].first_page, &spans_[i]);
      map_->SetSpan(spans_[i].last_page(), &spans_[i]);
      next += spans_[i].num_pages;
    }
  }

  Span* Free(size_t i) { return i < kNumSpans && free_[i] ? &spans_[i] : nullptr; }
  void Toggle(size_t i) {
    if (free_[i]) {
      runs_.Leave(&spans_[i]);
    } else {
      runs_.Join(&spans_[i], Free(i - 1), Free(i + 1));
    }
    free_[i] = !free_[i];
  }

  // Compares all results of FreeRuns with a walk over all spans.
  void Compare() {
    size_t count = 0;
    std::vector<Length> lengths;
    for (size_t i = 0; i < kNumSpans;) {
      if (!free_[i]) {
        ASSERT_FALSE(spans_[i].in_run);
        ++i;
        continue;
      }
      size_t end = i;
      Length length;
      while (end < kNumSpans && free_[end]) length += spans_[end++].num_pages;
      for (size_t j = i; j < end; ++j) {
        ASSERT_EQ(spans_[j].in_run, end - i > 1) << j;
        if (end - i == 1) continue;
        const FreeRuns::Run run = runs_.RunOf(&spans_[j]);
        ASSERT_EQ(run.first, &spans_[i]);
        ASSERT_EQ(run.last, &spans_[end - 1]);
        ASSERT_EQ(run.length(), length);
        ASSERT_TRUE(runs_.Contains(run));
      }
      if (end - i > 1) {
        ++count;
        lengths.push_back(length);
      }
      i = end;
    }
    ASSERT_EQ(runs_.count(), count);
    std::sort(lengths.begin(), lengths.end());
    for (size_t n = 1; n < 40; n += 3) {
      const auto fit = std::lower_bound(lengths.begin(), lengths.end(), Length(n));
      const FreeRuns::Run run = runs_.FindBestFit(Length(n));
      ASSERT_EQ(run.first == nullptr, fit == lengths.end());
      if (run.first != nullptr) {
        ASSERT_EQ(run.length(), *fit);
      }
    }
  }

  static constexpr PageId kFirst = PageId(1000);
  FakeVirtualMemory vm_;
  const std::unique_ptr<PageMap> map_ = std::make_unique<PageMap>();
  std::array<Span, kNumSpans> spans_;
  std::array<bool, kNumSpans> free_ = {};
  FreeRuns runs_{*map_};
};

TEST_F(FreeRunsTest, AgreesWithAWalk) {
  SeededRandom random(31);
  for (int step = 0; step < 20'000; ++step) {
    // At first most spans are free, later few.
    const size_t i = random.Below(kNumSpans);
    const bool wanted = random.OneIn(8) != (step / 500 % 2 == 0);
    if (free_[i] != wanted) Toggle(i);
    ASSERT_NO_FATAL_FAILURE(Compare()) << step;
  }
  for (size_t i = 0; i < kNumSpans; ++i) {
    if (free_[i]) Toggle(i);
    ASSERT_NO_FATAL_FAILURE(Compare());
  }
}

}  // namespace
}  // namespace tcmalloc
