// SPDX-License-Identifier: BSD-3-Clause
// Compares SpanStore alone with a naive model, one byte for each page, without locks and system
// calls.
#include "page/span_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "page/page_map.h"
#include "page/span.h"
#include "page/span_home.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr size_t kPages = 2048;

// States of a page in the model.
constexpr char kOutside = '.';
constexpr char kBacked = 'b';
constexpr char kReleasedPage = 'r';
constexpr char kUsed = 'u';
constexpr char kOnItsWay = 'w';

// A run of pages of one state, or of two, that cannot be extended.
struct Stretch {
  size_t first = 0;
  size_t pages = 0;
};

class SpanStoreTest : public testing::Test {
 protected:
  SpanStoreTest() {
    EXPECT_TRUE(page_map_->EnsureLeaves(Page(0) - Length(1), Length(kPages + 2), metadata_vm_));
    for (Span& record : records_) store_.ReturnRecord(&record);
  }

  PageId Page(size_t n) const { return PageId((vm_.base() >> kPageShift) + n); }
  size_t Index(PageId page) const { return (page - Page(0)).pages(); }
  PageRange Range(size_t first, size_t n) const { return {Page(first), Page(first + n)}; }
  void Set(PageRange range, char state) {
    std::fill(pages_.begin() + static_cast<ptrdiff_t>(Index(range.first)),
              pages_.begin() + static_cast<ptrdiff_t>(Index(range.end)), state);
  }
  char At(size_t page) const { return page < pages_.size() ? pages_[page] : kOutside; }
  static bool IsFree(char state) { return state == kBacked || state == kReleasedPage; }

  // The runs of pages for which `ok` holds.
  template <typename Predicate>
  std::vector<Stretch> Stretches(Predicate ok) const {
    std::vector<Stretch> runs;
    for (size_t i = 0; i < kPages; ++i) {
      if (!ok(pages_[i])) continue;
      if (i == 0 || !ok(pages_[i - 1])) runs.push_back({i, 0});
      ++runs.back().pages;
    }
    return runs;
  }
  std::vector<Stretch> StretchesOf(char state) const {
    return Stretches([state](char s) { return s == state; });
  }
  // The length of the shortest run of at least `n` pages, or 0 if there is none.
  static size_t BestFit(const std::vector<Stretch>& runs, size_t n) {
    size_t best = 0;
    for (const Stretch& run : runs) {
      if (run.pages >= n && (best == 0 || run.pages < best)) best = run.pages;
    }
    return best;
  }
  static size_t Longest(const std::vector<Stretch>& runs) {
    size_t longest = 0;
    for (const Stretch& run : runs) longest = std::max(longest, run.pages);
    return longest;
  }
  // The number of adjacent free pages around a free page, itself included.
  size_t Around(size_t page) const {
    size_t first = page;
    while (first > 0 && IsFree(At(first - 1))) --first;
    size_t end = page;
    while (IsFree(At(end))) ++end;
    return end - first;
  }

  void AddSome() {
    const std::vector<Stretch> gaps = StretchesOf(kOutside);
    if (gaps.empty()) return;
    const Stretch gap = gaps[random_.Below(gaps.size())];
    const size_t n = random_.Between(1, std::min<size_t>(gap.pages, 200));
    const PageRange range = Range(gap.first + random_.Below(gap.pages - n + 1), n);
    const bool released = random_.OneIn(2);
    store_.AddPages(range, released ? SpanState::kFreeReleased : SpanState::kFreeBacked, true);
    Set(range, released ? kReleasedPage : kBacked);
  }

  void TakeSome() {
    const size_t n = random_.Between(1, random_.OneIn(3) ? 150 : 12);
    const SpanState use = random_.OneIn(2) ? SpanState::kSmall : SpanState::kLarge;
    const SpanStore::Request request = {.length = Length(n), .use = use};
    const size_t backed = BestFit(StretchesOf(kBacked), n);
    const size_t released = BestFit(StretchesOf(kReleasedPage), n);
    const size_t joined = BestFit(Stretches(&IsFree), n);
    const SpanStore::Place only = store_.FindPlace(request, true);
    ASSERT_EQ(only.span != nullptr, backed > 0);
    const SpanStore::Place place = store_.FindPlace(request, false);
    ASSERT_EQ(place.span != nullptr, joined > 0);
    if (place.span == nullptr) return;
    const size_t first = Index(place.span->first_page + place.offset);
    if (backed > 0) {
      ASSERT_EQ(place.span->num_pages, Length(backed));
    } else {
      ASSERT_LE(Around(first), released > 0 ? std::max(released, Around(first)) : joined);
    }
    const auto from = pages_.begin() + static_cast<ptrdiff_t>(first);
    const auto fresh =
        static_cast<size_t>(std::count(from, from + static_cast<ptrdiff_t>(n), kReleasedPage));
    ASSERT_EQ(store_.FreshPages(place, Length(n)), Length(fresh));
    SpanStore::Taken taken;
    store_.Take(request, place, &taken);
    ASSERT_EQ(taken.span->pages().first, Page(first));
    ASSERT_EQ(taken.span->num_pages, Length(n));
    ASSERT_TRUE(std::all_of(from, from + static_cast<ptrdiff_t>(n), &IsFree));
    ASSERT_EQ(taken.fresh, fresh > 0);
    across_[0] += fresh < n && fresh > 0 && At(first) == kBacked;
    across_[1] += fresh < n && fresh > 0 && At(first) == kReleasedPage;
    ASSERT_EQ(taken.span->zeroed(), fresh == n);
    Set(taken.span->pages(), kUsed);
    used_[first] = taken.span;
  }

  std::map<size_t, Span*>::iterator SomeUsed() {
    return std::next(used_.begin(), static_cast<ptrdiff_t>(random_.Below(used_.size())));
  }

  void DeleteSome() {
    if (used_.empty()) return;
    const auto at = SomeUsed();
    Set(at->second->pages(), kBacked);
    store_.Delete(at->second);
    used_.erase(at);
  }

  void ResizeSome() {
    if (used_.empty()) return;
    Span* const span = SomeUsed()->second;
    if (!span->Is(SpanState::kLarge)) return;
    const size_t old = span->num_pages.pages();
    const size_t n = random_.Between(1, old + 20);
    const size_t end = Index(span->end());
    Length fresh;
    if (n > old) {
      bool fits = true;
      for (size_t i = end; i < end + n - old; ++i) fits &= IsFree(At(i));
      ASSERT_EQ(store_.CanExtend(*span, Length(n - old), &fresh), fits);
      if (!fits) return;
      const auto from = pages_.begin() + static_cast<ptrdiff_t>(end);
      ASSERT_EQ(fresh.pages(), static_cast<size_t>(std::count(
                                   from, from + static_cast<ptrdiff_t>(n - old), kReleasedPage)));
    }
    Set(span->pages(), kBacked);
    store_.Resize(span, Length(n));
    ASSERT_EQ(span->num_pages, Length(n));
    Set(span->pages(), kUsed);
  }

  void ReleaseSome() {
    if (random_.OneIn(2) && !on_their_way_.empty()) {
      Span* const span = on_their_way_.back();
      on_their_way_.pop_back();
      const bool released = random_.OneIn(2);
      Set(span->pages(), released ? kReleasedPage : kBacked);
      return store_.EndRelease(span, released);
    }
    const size_t limit = random_.Between(1, 100);
    const bool may_cut = random_.OneIn(2);
    const size_t longest = Longest(StretchesOf(kBacked));
    Span* const span = store_.TakeReleasable(Length(limit), true, may_cut);
    ASSERT_EQ(span != nullptr, longest > 0);
    if (span == nullptr) return;
    ASSERT_EQ(span->num_pages.pages(), may_cut ? std::min(longest, limit) : longest);
    Set(span->pages(), kOnItsWay);
    on_their_way_.push_back(span);
  }

  void RemoveSome() {
    const size_t longest =
        std::max(Longest(StretchesOf(kBacked)), Longest(StretchesOf(kReleasedPage)));
    SpanState state = SpanState::kUnused;
    Span* const span = store_.RemoveLongest(&state);
    ASSERT_EQ(span != nullptr, longest > 0);
    if (span == nullptr) return;
    ASSERT_EQ(span->num_pages, Length(longest));
    ASSERT_EQ(At(Index(span->first_page)),
              state == SpanState::kFreeReleased ? kReleasedPage : kBacked);
    Set(span->pages(), kOutside);
    store_.ReturnRecord(span);
  }

  // Checks that ListSpans returns the spans of the model in the order of their addresses.
  void CheckSpans() const {
    std::vector<SpanView> views(kPages);
    const size_t n = store_.ListSpans(PageId(), views.data(), views.size());
    std::string pages(kPages, kOutside);
    for (size_t i = 0; i < n; ++i) {
      const SpanState state = views[i].state;
      const char as = state == SpanState::kFreeBacked     ? kBacked
                      : state == SpanState::kFreeReleased ? kReleasedPage
                      : state == SpanState::kReleasing    ? kOnItsWay
                                                          : kUsed;
      std::fill_n(pages.begin() + static_cast<ptrdiff_t>(Index(views[i].first_page)),
                  views[i].num_pages.pages(), as);
    }
    ASSERT_EQ(pages, pages_);
  }

  void CheckRegions() const {
    const std::vector<Stretch> regions = Stretches([](char s) { return s != kOutside; });
    size_t end = 0;
    for (const Stretch& region : regions) {
      if (region.first > end) {
        ASSERT_FALSE(store_.Owns(Page(end)));
      }
      end = region.first + region.pages;
      ASSERT_TRUE(store_.Owns(Page(region.first), Length(region.pages)));
      ASSERT_FALSE(store_.Owns(Page(region.first), Length(region.pages + 1)));
      ASSERT_FALSE(store_.Owns(Page(end)));
    }
    ASSERT_FALSE(store_.Owns(Page(kPages)));
  }

  SeededRandom random_{20261125};
  FakeVirtualMemory vm_{FakeVirtualMemory::AddressOnly(kPages * kPageSize)};
  FakeVirtualMemory metadata_vm_;
  const std::unique_ptr<PageMap> page_map_ = std::make_unique<PageMap>();
  SpanHomes homes_;
  std::vector<Span> records_{2 * kPages};
  // The last argument is so large that no large object is placed to save address space.
  SpanStore store_{*page_map_, homes_, Length(1), Length((SIZE_MAX >> 1) >> kPageShift)};

  std::string pages_ = std::string(kPages, kOutside);
  std::map<size_t, Span*> used_;
  std::vector<Span*> on_their_way_;
  int across_[2] = {};
};

TEST_F(SpanStoreTest, AgreesWithABytePerPage) {
  for (int step = 0; step < 6000 && !HasFailure(); ++step) {
    SCOPED_TRACE(step);
    switch (random_.Below(20)) {
      case 0:
        AddSome();
        break;
      case 1:
        if (random_.OneIn(4)) RemoveSome();
        break;
      case 2:
      case 3:
      case 4:
        ReleaseSome();
        break;
      case 5:
      case 6:
        ResizeSome();
        break;
      default:
        random_.OneIn(2) ? TakeSome() : DeleteSome();
    }
    if (step % 20 != 0) continue;
    store_.CheckInvariants();
    CheckSpans();
    CheckRegions();
    const size_t backed = static_cast<size_t>(std::count(pages_.begin(), pages_.end(), kBacked));
    const size_t used = static_cast<size_t>(std::count(pages_.begin(), pages_.end(), kUsed));
    ASSERT_EQ(store_.free(SpanStore::kBacked), Length(backed));
    ASSERT_EQ(store_.in_use(), Length(used));
  }
  // Some places across several spans begin in a backed span, others in a released one.
  EXPECT_GT(across_[0], 20);
  EXPECT_GT(across_[1], 20);
  // No record leaks.
  while (!used_.empty()) DeleteSome();
  for (Span* const span : on_their_way_) store_.EndRelease(span, true);
  SpanState state = SpanState::kUnused;
  while (Span* const span = store_.RemoveLongest(&state)) store_.ReturnRecord(span);
  EXPECT_EQ(store_.num_records(), records_.size());
  EXPECT_EQ(store_.counts.system_bytes, 0u);
}

// Large objects take the tightest free memory if address space is to be saved, else backed memory.
TEST_F(SpanStoreTest, TheTightestPlaceIsTakenWhereMuchIsToSpare) {
  store_.AddPages(Range(0, 100), SpanState::kFreeBacked, true);
  store_.AddPages(Range(200, 10), SpanState::kFreeReleased, true);
  SpanStore saving(*page_map_, homes_, Length(1), Length(0));
  std::vector<Span> records(20);
  for (Span& record : records) saving.ReturnRecord(&record);
  saving.AddPages(Range(1000, 100), SpanState::kFreeBacked, true);
  saving.AddPages(Range(1200, 10), SpanState::kFreeReleased, true);
  const SpanStore::Request request = {.length = Length(8), .use = SpanState::kLarge};
  EXPECT_EQ(store_.FindPlace(request, false).span->first_page, Page(0));
  const SpanStore::Place place = saving.FindPlace(request, false);
  EXPECT_EQ(place.span->first_page, Page(1200));
  EXPECT_TRUE(place.by_choice);
  EXPECT_EQ(saving.FindBackedPlace(request).span->first_page, Page(1000));
  // Small objects do not take the tightest memory.
  EXPECT_EQ(
      saving.FindPlace({.length = Length(8), .use = SpanState::kSmall}, false).span->first_page,
      Page(1000));
}

TEST_F(SpanStoreTest, AMovedObjectLeavesReleasedPagesBetweenItsEnds) {
  store_.AddPages(Range(0, 100), SpanState::kFreeBacked, true);
  const SpanStore::Request request = {.length = Length(60), .use = SpanState::kLarge};
  SpanStore::Taken taken;
  store_.Take(request, store_.FindPlace(request, false), &taken);
  store_.DeleteMoved(taken.span, Length(10), Length(30));
  EXPECT_EQ(store_.free(SpanStore::kReleased), Length(30));
  EXPECT_EQ(store_.free(SpanStore::kBacked), Length(70));
  EXPECT_EQ(page_map_->SpanOf(Page(10))->num_pages, Length(30));
  store_.CheckInvariants();
}

TEST_F(SpanStoreTest, MetadataTakesAWholeSpanWhereRecordsAreShort) {
  store_.AddPages(Range(0, 100), SpanState::kFreeBacked, true);
  store_.AddPages(Range(200, 50), SpanState::kFreeBacked, false);
  EXPECT_EQ(store_.TakeForMetadata(Length(40), true), nullptr);  // not the process's own memory
  EXPECT_EQ(store_.TakeForMetadata(Length(60), true)->num_pages, Length(60));
  std::vector<Span> records(2);
  SpanStore poor(*page_map_, homes_, Length(1), Length(0));
  for (Span& record : records) poor.ReturnRecord(&record);
  poor.AddPages(Range(1000, 100), SpanState::kFreeReleased, true);
  EXPECT_EQ(poor.TakeForMetadata(Length(60), false)->num_pages, Length(100));
  EXPECT_EQ(poor.TakeForMetadata(Length(1), false), nullptr);
  store_.CheckInvariants();
  poor.CheckInvariants();
}

}  // namespace
}  // namespace tcmalloc
