// SPDX-License-Identifier: BSD-3-Clause
// A page heap and a naive model of it do the same random operations, and some system calls fail.
// The model has one byte for each page. It determines which span each request must get, which pages
// must be released to the OS, and when the heap must grow. So every result and every system call of
// the heap is compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "page_heap/page_heap.h"
#include "page_heap/release_policy.h"
#include "page_heap/span_home.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/kept_spans.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

using Placement = FakeVirtualMemory::Placement;
using Call = FakeVirtualMemory::Call;
using Kind = FakeVirtualMemory::Kind;

constexpr size_t kRangePages = 3200;

// This is small enough that heaps of this size save address space during a part of each run.
constexpr size_t kSparePages = 128;

// There is more than one shard, and few enough that each has some spans.
constexpr size_t kFuzzShards = 3;

enum class PageState : uint8_t { kOutside, kBacked, kReleased, kInUse, kRefused, kCached };

// A run of free pages of one state that cannot be extended.
struct Run {
  size_t first;
  size_t pages;
  PageState state;
};

struct LiveSpan {
  Span* span;
  size_t pages;
  SpanState use;
  int64_t handed_out_ms;
};

// A span in a span cache.
struct Kept {
  Span* span;
  size_t first;
};

int64_t fuzz_clock_ms = 0;

class Fuzzer {
 public:
  Fuzzer(const FakeVirtualMemory::Options& options, uint64_t seed)
      : random_(seed),
        granule_(std::max<size_t>(1, options.hardware_page_size / kPageSize)),
        under_test_(options,
                    {.spare_space = Length(kSparePages), .now_ms = [] { return fuzz_clock_ms; }}),
        base_(under_test_.vm.base() >> kPageShift),
        pages_(kRangePages, PageState::kOutside) {
    vm_.RecordCalls();
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      Step();
      if (testing::Test::HasFailure()) return;
      CompareStats();
      if (step % 50 == 0) heap_.store()->CheckInvariants();
      if (testing::Test::HasFailure()) return;
    }
    vm_.StopFailing();
    while (!live_.empty()) {
      DeleteSome();
      if (testing::Test::HasFailure()) return;
    }
    CompareStats();
    heap_.store()->CheckInvariants();
    // These must happen often enough for the run to be meaningful.
    for (const char* event :
         {"map refused", "release refused", "out of memory", "served backed", "served released",
          "served from a cache", "served across", "unbacked by choice", "drained", "extended",
          "extended across", "not extended", "shortened", "released by policy"}) {
      EXPECT_GT(events_[event], 0u) << event;
    }
    EXPECT_GT(pages_released_, 0u);
  }

 private:
  void Step() {
    if (random_.OneIn(10)) fuzz_clock_ms += static_cast<int64_t>(random_.Below(3000));
    switch (random_.Below(40)) {
      case 0:
        return ReleaseSome();
      case 1:
        rate_ = std::array<double, 6>{0, 1, 1, 4, 50, 1000}[random_.Below(6)];
        policy_.SetRate(rate_);
        heap_.governor()->SetReleaseRate(rate_);
        EXPECT_EQ(heap_.governor()->release_rate(), rate_);
        return;
      case 2:
        return vm_.FailMap(random_.Between(1, 3), random_.Between(1, 5));
      case 3:
        return vm_.FailRelease(random_.Between(1, 3), random_.Between(1, 3));
      case 4:
      case 5:
      case 6:
        return DeleteWrong();
      case 7:
        CheckList();
        return CheckOwnership();
      case 8:
        // Now and then frees nearly everything at once.
        if (random_.OneIn(5)) {
          for (size_t n = live_.size() * 9 / 10; n > 0 && !testing::Test::HasFailure(); --n) {
            DeleteSome();
          }
        }
        return;
      case 9:
      case 10:
      case 11:
      case 12:
        return AllocateFromCache();
      case 13:
      case 14:
        return ResizeSome();
      default:
        return random_.Below(100) < (growing_ ? 60u : 40u) ? AllocateSome() : DeleteSome();
    }
  }

  std::vector<struct Run> FreeRuns() const {
    std::vector<struct Run> runs;
    for (size_t i = 0; i < pages_.size(); ++i) {
      const PageState state = pages_[i];
      if (state != PageState::kBacked && state != PageState::kReleased) continue;
      if (!runs.empty() && runs.back().state == state &&
          runs.back().first + runs.back().pages == i) {
        ++runs.back().pages;
      } else {
        runs.push_back({i, 1, state});
      }
    }
    return runs;
  }

  void SetPages(size_t first, size_t n, PageState state) {
    std::fill_n(pages_.begin() + static_cast<ptrdiff_t>(first), n, state);
  }

  // Returns the runs that may serve a request for `n` pages: one of them must. For a run of both
  // kinds, returns the part that must serve it.
  std::vector<struct Run> BestFits(size_t n, size_t alignment, SpanState use,
                                   bool backed_only = false) const {
    const size_t needed = n + alignment - granule_;
    const std::vector<struct Run> runs = FreeRuns();
    const std::vector<struct Run> backed = BestOf(runs, PageState::kBacked, needed);
    if (backed.empty()) return backed_only ? backed : BestFreshFits(runs, n, alignment);
    if (use != SpanState::kLarge || backed.front().pages == n) return backed;
    if (system_pages_ <= most_in_use_ + most_in_use_ / 16 + kSparePages) return backed;
    // Large objects are placed where the surrounding free memory is smallest.
    const std::vector<struct Run> fresh = BestFreshFits(runs, n, alignment);
    std::vector<struct Run> best;
    for (const struct Run& m : backed) {
      bool is_best = fresh.empty();
      for (const struct Run& f : fresh) {
        const bool tighter = PagesAround(f.first) < PagesAround(m.first);
        is_best |= !tighter;
        if (tighter) best.push_back(f);
      }
      if (is_best) best.push_back(m);
    }
    return best;
  }

  // As above, if no backed run is long enough: the shortest released run, or the shortest run of
  // both kinds if no more pages around it are free.
  std::vector<struct Run> BestFreshFits(const std::vector<struct Run>& runs, size_t n,
                                        size_t alignment) const {
    const size_t needed = n + alignment - granule_;
    const std::vector<struct Run> released = BestOf(runs, PageState::kReleased, needed);
    const std::vector<struct Run> joined = BestJoined(runs, needed);
    std::vector<struct Run> best;
    bool joined_fit = released.empty();
    for (const struct Run& run : released) {
      const bool tighter = !joined.empty() && joined.front().pages <= PagesAround(run.first);
      joined_fit |= tighter;
      if (!tighter) best.push_back(run);
    }
    if (!joined_fit) return best;
    for (struct Run run : joined) {
      const size_t front = (base_ + run.first + alignment - 1) / alignment * alignment - base_;
      const size_t end = (base_ + run.first + run.pages - n) / alignment * alignment - base_;
      run.first = CountReleased(front, n) <= CountReleased(end, n) ? front : end;
      best.push_back(run);
    }
    return best;
  }

  static std::vector<struct Run> BestOf(const std::vector<struct Run>& runs, PageState state,
                                        size_t needed) {
    std::vector<struct Run> best;
    for (const struct Run& run : runs) {
      if (run.state != state || run.pages < needed) continue;
      if (!best.empty() && run.pages > best.front().pages) continue;
      if (!best.empty() && run.pages < best.front().pages) best.clear();
      // Among equal long runs, the lowest one serves.
      if (!best.empty() && run.pages > FreeSpans::kMaxExactPages) continue;
      best.push_back(run);
    }
    return best;
  }
  // Returns the shortest sequences of several adjacent runs that are long enough.
  static std::vector<struct Run> BestJoined(const std::vector<struct Run>& runs, size_t needed) {
    std::vector<struct Run> best;
    for (size_t i = 0; i < runs.size();) {
      struct Run joined = runs[i++];
      const bool is_one = i == runs.size() || runs[i].first > joined.first + joined.pages;
      for (; i < runs.size() && runs[i].first == joined.first + joined.pages; ++i) {
        joined.pages += runs[i].pages;
      }
      if (is_one || joined.pages < needed) continue;
      if (!best.empty() && joined.pages > best.front().pages) continue;
      if (!best.empty() && joined.pages < best.front().pages) best.clear();
      best.push_back(joined);
    }
    return best;
  }
  // The number of adjacent free pages around a free page, itself included.
  size_t PagesAround(size_t page) const {
    size_t first = page;
    while (first > 0 && IsFree(first - 1)) --first;
    size_t end = page;
    while (IsFree(end)) ++end;
    return end - first;
  }
  size_t CountReleased(size_t first, size_t n) const {
    const auto from = pages_.begin() + static_cast<ptrdiff_t>(first);
    return static_cast<size_t>(
        std::count(from, from + static_cast<ptrdiff_t>(n), PageState::kReleased));
  }

  // Returns the next recorded call if it is of this kind, else null.
  const Call* NextCall(Kind kind) {
    if (calls_.empty() || calls_.front().kind != kind) return nullptr;
    last_call_ = calls_.front();
    calls_.erase(calls_.begin());
    return &last_call_;
  }

  // Models one attempt to grow: true when a mapping was made.
  bool ReplayGrowth(size_t needed) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Call* const call = NextCall(Kind::kMap);
      if (call == nullptr) return false;
      EXPECT_GE(call->bytes, needed * kPageSize);
      if (call->ok) {
        const size_t first = (call->start >> kPageShift) - base_;
        for (size_t i = 0; i < call->bytes >> kPageShift; ++i) {
          EXPECT_EQ(pages_[first + i], PageState::kOutside);
        }
        SetPages(first, call->bytes >> kPageShift, PageState::kReleased);
        system_pages_ += call->bytes >> kPageShift;
        return true;
      }
      ++events_["map refused"];
      // A shorter mapping would be too short for the request.
      if (call->bytes == needed * kPageSize) return false;
    }
    return false;
  }

  // Models a pass that releases at least `at_least` pages, in slices of at most the rest of
  // `at_most`. The longest backed runs are released first, and runs that the OS refuses are set
  // aside. Returns the number of released pages.
  size_t ReplayRelease(size_t at_least, size_t at_most) {
    size_t total = 0;
    while (total < at_least) {
      const std::vector<struct Run> runs = FreeRuns();
      size_t longest = 0;
      for (const struct Run& run : runs) {
        if (run.state == PageState::kBacked) longest = std::max(longest, run.pages);
      }
      if (longest == 0) break;
      size_t limit = std::min(at_most - total, kReleaseSlice.pages());
      limit = (limit + granule_ - 1) / granule_ * granule_;
      const Call* const call = NextCall(Kind::kRelease);
      if (call == nullptr) {
        ADD_FAILURE() << "released " << total << " pages of " << at_least << " and stopped";
        break;
      }
      const size_t first = (call->start >> kPageShift) - base_;
      const size_t n = call->bytes >> kPageShift;
      EXPECT_EQ(n, std::min(longest, limit));
      bool is_start_of_a_longest = false;
      for (const struct Run& run : runs) {
        is_start_of_a_longest |=
            run.state == PageState::kBacked && run.first == first && run.pages == longest;
      }
      EXPECT_TRUE(is_start_of_a_longest) << first;
      if (testing::Test::HasFailure()) break;
      SetPages(first, n, call->ok ? PageState::kReleased : PageState::kRefused);
      if (call->ok) {
        total += n;
        ++releases_;
        pages_released_ += n;
      } else {
        ++events_["release refused"];
      }
    }
    std::replace(pages_.begin(), pages_.end(), PageState::kRefused, PageState::kBacked);
    return total;
  }

  void AllocateSome() {
    size_t n = 1;
    switch (random_.Below(10)) {
      case 0:
        n = random_.Between(1, 900);
        break;
      case 1:
        n = random_.Between(100, 160);
        break;
      case 2:
      case 3:
        n = random_.Between(1, 130);
        break;
      default:
        n = random_.Between(1, 8);
    }
    size_t alignment = 1;
    if (random_.OneIn(4)) alignment = size_t{1} << random_.Below(9);
    const SpanState use = random_.OneIn(2) ? SpanState::kSmall : SpanState::kLarge;
    Span* const span = alignment == 1 && random_.OneIn(2)
                           ? heap_.New(Length(n), use)
                           : heap_.New(Length(n), use, Length(alignment));
    calls_ = vm_.TakeCalls();
    n = (n + granule_ - 1) / granule_ * granule_;
    alignment = std::max(alignment, granule_);
    const size_t needed = n + alignment - granule_;
    // Kept spans are used before unbacked memory.
    std::vector<struct Run> fits = BestFits(n, alignment, use, true);
    while (fits.empty() && n <= kMaxKeptPages && ReplayDrainOfOne()) {
      fits = BestFits(n, alignment, use, true);
    }
    if (fits.empty()) {
      ReplayDrain();
      fits = BestFits(n, alignment, use);
    }
    if (fits.empty() && ReplayGrowth(needed)) fits = BestFits(n, alignment, use);
    EXPECT_TRUE(calls_.empty()) << "more system calls than the model would make";
    if (fits.empty()) {
      EXPECT_EQ(span, nullptr);
      ++events_["out of memory"];
      growing_ = false;
      return;
    }
    ASSERT_NE(span, nullptr);
    const size_t first = span->first_page.index() - base_;
    const auto fits_here = [&](const struct Run& run) {
      return first == (base_ + run.first + alignment - 1) / alignment * alignment - base_;
    };
    ASSERT_TRUE(std::any_of(fits.begin(), fits.end(), fits_here)) << "not the best fit";
    ASSERT_EQ(span->num_pages.pages(), n);
    ASSERT_EQ(span->first_page.index() % alignment, 0u);
    ASSERT_EQ(span->state.load(), use);
    const size_t released = CountReleased(first, n);
    // True if a backed run was long enough, too.
    const bool chosen = !BestOf(FreeRuns(), PageState::kBacked, needed).empty();
    ASSERT_EQ(span->zeroed(), released == n);
    events_["served across"] += released > 0 && released < n;
    events_["unbacked by choice"] += released > 0 && chosen;
    ASSERT_EQ(under_test_.page_map->SpanOf(span->first_page), span);
    ASSERT_EQ(under_test_.page_map->SpanOf(span->last_page()), span);
    ++events_[span->zeroed() ? "served released" : "served backed"];
    NoteLive(span, n, use);
    NoteDemand(chosen ? 0 : released, fuzz_clock_ms);
  }

  void NoteLive(Span* span, size_t n, SpanState use) {
    const size_t first = span->first_page.index() - base_;
    if (use == SpanState::kLarge) {
      ASSERT_EQ(span->sample, nullptr);
      span->sample = this;
    }
    SetPages(first, n, PageState::kInUse);
    live_.emplace(first, LiveSpan{span, n, use, fuzz_clock_ms});
  }

  void AllocateFromCache() {
    const size_t shard = random_.Below(kFuzzShards);
    size_t n = random_.Between(1, random_.OneIn(4) ? kMaxKeptPages + 3 : 8);
    for (const auto& [pages, kept] : caches_[shard]) {
      if (!kept.empty() && random_.OneIn(2)) n = pages;
    }
    Span* const span = NewFromCache(heap_, Length(n), under_test_.homes[shard]);
    EXPECT_TRUE(vm_.TakeCalls().empty());
    const size_t rounded = (n + granule_ - 1) / granule_ * granule_;
    std::deque<Kept>& cached = caches_[shard][rounded];
    ASSERT_EQ(span, cached.empty() ? nullptr : cached.front().span);
    if (span == nullptr) return;
    cached.pop_front();
    ASSERT_EQ(span->num_pages.pages(), rounded);
    ASSERT_EQ(span->state.load(), SpanState::kSmall);
    ASSERT_FALSE(span->zeroed());
    ++events_["served from a cache"];
    NoteLive(span, rounded, SpanState::kSmall);
  }

  // Models DeleteToCache: keeps the span, in the order in which spans are handed out, or returns
  // false.
  bool KeepInCache(const LiveSpan& live, size_t shard, bool near) {
    if (live.pages > kMaxKeptPages) return false;
    const auto kept_bytes = [](const auto& cache) {
      size_t pages = 0;
      for (const auto& [length, spans] : cache) pages += length * spans.size();
      return pages * kPageSize;
    };
    const size_t own = kept_bytes(caches_[shard]);
    const size_t after = own + live.pages * kPageSize;
    const auto share =
        static_cast<size_t>(static_cast<double>(heap_.Shares().kept_spans) / std::max(rate_, 1.0));
    size_t others = 0;
    const size_t step = kKeptSpansStep;
    if (own / step != after / step) {
      for (const auto& cache : caches_) others += kept_bytes(cache);
      others -= own;
    }
    if (after > share - std::min(share, others)) return false;
    std::deque<Kept>& cached = caches_[shard][live.pages];
    const Kept kept{live.span, live.span->first_page.index() - base_};
    near ? cached.push_front(kept) : cached.push_back(kept);
    return true;
  }

  // Models the draining of one span, the longest of the first shard that keeps any. False if no
  // shard keeps a span.
  bool ReplayDrainOfOne() {
    for (auto& cache : caches_) {
      for (auto at = cache.rbegin(); at != cache.rend(); ++at) {
        if (at->second.empty()) continue;
        const size_t first = at->second.front().first;
        at->second.pop_front();
        ++events_["drained"];
        ReplayDelete(first, at->first);
        return true;
      }
    }
    return false;
  }
  void ReplayDrain() {
    while (ReplayDrainOfOne()) {
    }
  }

  Length CountPages(PageState state) const {
    return Length(static_cast<size_t>(std::count(pages_.begin(), pages_.end(), state)));
  }
  Length InUse() const { return CountPages(PageState::kInUse) + CountPages(PageState::kCached); }
  Length Backed() const { return CountPages(PageState::kBacked); }
  // Models what the heap reports to its policy about pages that were taken.
  void NoteDemand(size_t fresh, int64_t now_ms) {
    most_in_use_ = std::max(most_in_use_, InUse().pages());
    policy_.Demand(InUse(), fresh > 0 ? Backed() : Length(0), Length(fresh), now_ms);
  }

  // Models the deletion of a span.
  void ReplayDelete(size_t first, size_t pages) {
    SetPages(first, pages, PageState::kBacked);
    if (policy_.PagesFreed(Length(pages)) == Length(0)) return;
    const ReleasePolicy::State state = {
        .in_use = InUse(),
        .free_backed = Backed(),
        .slack = Length::ForBytes(ShareRetention({.in_use_bytes = InUse().bytes()}).free_pages)};
    const Length due = policy_.Decide(fuzz_clock_ms, state, kReleaseSlice).length;
    const Length released(ReplayRelease(due.pages(), due.pages()));
    // The last granule is released as a whole.
    if (released > due) policy_.ReleasedMore(released - due);
    events_["released by policy"] += released.pages();
  }

  void DeleteSome() {
    if (live_.empty()) {
      growing_ = true;
      return;
    }
    const auto at = RandomLive();
    const size_t first = at->first;
    const LiveSpan live = at->second;
    ASSERT_EQ(live.span->in_use.handed_out_ms, live.handed_out_ms);
    stale_.emplace_back(live.span, live.span->start_address());
    bool cached = false;
    if (live.use == SpanState::kLarge && random_.OneIn(2)) {
      ASSERT_TRUE(heap_.DeleteLargeAt(live.span, live.span->start_address()));
    } else if (live.use == SpanState::kSmall && random_.OneIn(2)) {
      const size_t shard = random_.Below(kFuzzShards);
      const bool near = random_.OneIn(2);
      DeleteToCache(heap_, live.span, under_test_.homes[shard], near);
      cached = KeepInCache(live, shard, near);
    } else {
      heap_.Delete(live.span);
    }
    live_.erase(at);
    calls_ = vm_.TakeCalls();
    if (cached) {
      SetPages(first, live.pages, PageState::kCached);
    } else {
      ReplayDelete(first, live.pages);
    }
    EXPECT_TRUE(calls_.empty()) << "more system calls than the model would make";
    EXPECT_FALSE(heap_.DeleteLargeAt(stale_.back().first, stale_.back().second)) << "second free";
  }

  bool IsFree(size_t page) const {
    return page < pages_.size() &&
           (pages_[page] == PageState::kBacked || pages_[page] == PageState::kReleased);
  }
  // True if free memory of both kinds follows the object.
  bool IsBeforeAChange(const LiveSpan& live, size_t first) const {
    size_t page = first + live.pages;
    if (live.use != SpanState::kLarge || !IsFree(page)) return false;
    while (IsFree(page + 1) && pages_[page + 1] == pages_[page]) ++page;
    return IsFree(page + 1);
  }

  void ResizeSome() {
    if (live_.empty()) return;
    auto at = RandomLive();
    if (random_.OneIn(2)) {
      // Such objects are rare, so they are chosen more often.
      const auto rare = std::find_if(live_.begin(), live_.end(), [&](const auto& entry) {
        return IsBeforeAChange(entry.second, entry.first);
      });
      if (rare != live_.end()) at = rare;
    }
    const size_t first = at->first;
    LiveSpan& live = at->second;
    size_t free_end = first + live.pages;
    while (IsFree(free_end)) ++free_end;
    size_t n = random_.Between(1, live.pages);
    if (random_.OneIn(2)) n = random_.Between(live.pages, free_end - first);
    if (random_.OneIn(4)) n = free_end - first;
    if (random_.OneIn(4)) n += random_.Between(1, 20);
    const size_t rounded = (n + granule_ - 1) / granule_ * granule_;
    const bool done = heap_.ResizeLargeAt(live.span, live.span->start_address(), Length(n));
    calls_ = vm_.TakeCalls();
    if (live.use != SpanState::kLarge) {
      EXPECT_FALSE(done);
    } else if (rounded <= live.pages) {
      ASSERT_TRUE(done);
      const size_t given = live.pages - rounded;
      live.pages = rounded;
      if (given > 0) {
        ReplayDelete(first + rounded, given);
        ++events_["shortened"];
      }
    } else {
      int runs = 0;
      PageState last = PageState::kOutside;
      for (size_t page = first + live.pages; page < std::min(free_end, first + rounded); ++page) {
        runs += pages_[page] != last;
        last = pages_[page];
      }
      ASSERT_EQ(done, free_end >= first + rounded);
      if (!done) {
        ++events_["not extended"];
      } else {
        ++events_["extended"];
        events_["extended across"] += runs > 1;
        const size_t fresh = CountReleased(first, rounded);
        SetPages(first, rounded, PageState::kInUse);
        if (rounded > live.pages) NoteDemand(fresh, 0);  // it does not look at the clock
        live.pages = rounded;
      }
    }
    EXPECT_TRUE(calls_.empty()) << "more system calls than the model would make";
    ASSERT_EQ(live.span->num_pages.pages(), live.pages);
    ASSERT_EQ(under_test_.page_map->SpanOf(live.span->first_page), live.span);
    ASSERT_EQ(under_test_.page_map->SpanOf(live.span->last_page()), live.span);
  }

  // Frees pointers that are not the start of a large object. This is refused, and nothing changes.
  void DeleteWrong() {
    if (!live_.empty()) {
      const auto at = RandomLive();
      const LiveSpan& live = at->second;
      char* const start = static_cast<char*>(live.span->start_address());
      const size_t offset = random_.Between(1, live.pages * kPageSize + kPageSize);
      EXPECT_FALSE(heap_.DeleteLargeAt(live.span, start + offset));
      EXPECT_FALSE(heap_.DeleteLargeAt(live.span, start - offset));
      EXPECT_FALSE(heap_.DeleteLargeAt(live.span, nullptr));
      EXPECT_FALSE(heap_.ResizeLargeAt(live.span, start + offset, live.span->num_pages));
      if (live.use == SpanState::kSmall) {
        EXPECT_FALSE(heap_.DeleteLargeAt(live.span, start));
      }
    }
    if (!stale_.empty()) {
      // The record was freed. It may be in use again, for a span that starts at the same place.
      const auto& [span, start] = stale_[random_.Below(stale_.size())];
      const size_t first = (reinterpret_cast<uintptr_t>(start) >> kPageShift) - base_;
      const auto at = live_.find(first);
      if (at == live_.end() || at->second.span != span) {
        EXPECT_FALSE(heap_.DeleteLargeAt(span, start));
      }
    }
    EXPECT_TRUE(vm_.TakeCalls().empty());
  }

  void ReleaseSome() {
    const size_t n = random_.OneIn(4) ? SIZE_MAX >> kPageShift : random_.Between(0, 1500);
    const Length released = heap_.ReleaseAtLeast(Length(n));
    calls_ = vm_.TakeCalls();
    ReplayDrain();
    EXPECT_EQ(released.pages(), ReplayRelease(n, n));
    EXPECT_TRUE(calls_.empty()) << "more system calls than the model would make";
  }

  void CheckOwnership() {
    const size_t page = random_.Below(kRangePages);
    EXPECT_EQ(heap_.store()->Owns(PageId(base_ + page)), pages_[page] != PageState::kOutside)
        << page;
    EXPECT_FALSE(heap_.store()->Owns(PageId(base_ - 1)));
    EXPECT_FALSE(heap_.store()->Owns(PageId(base_ + kRangePages)));
    EXPECT_FALSE(heap_.store()->Owns(PageId(0)));
    SpanView view;
    if (pages_[page] == PageState::kOutside) return;
    ASSERT_EQ(heap_.store()->ListSpans(PageId(base_ + page), &view, 1), 1u);
    EXPECT_LE(view.first_page, PageId(base_ + page));
    EXPECT_GT(view.first_page + view.num_pages, PageId(base_ + page));
  }

  // ListSpans has every page of the heap in one span, in order, for any number of spans per call.
  void CheckList() {
    std::vector<PageState> listed(pages_.size(), PageState::kOutside);
    std::vector<SpanView> some(random_.Between(1, 20));
    PageId from;
    while (const size_t n = heap_.store()->ListSpans(from, some.data(), some.size())) {
      for (size_t i = 0; i < n; ++i) {
        const SpanView& view = some[i];
        ASSERT_GE(view.first_page, from);
        from = view.first_page + view.num_pages;
        std::fill_n(listed.begin() + static_cast<ptrdiff_t>(view.first_page.index() - base_),
                    view.num_pages.pages(),
                    view.state == SpanState::kFreeBacked     ? PageState::kBacked
                    : view.state == SpanState::kFreeReleased ? PageState::kReleased
                                                             : PageState::kInUse);
      }
    }
    std::vector<PageState> expected = pages_;
    std::replace(expected.begin(), expected.end(), PageState::kCached, PageState::kInUse);
    EXPECT_TRUE(listed == expected);
  }

  void CompareStats() {
    const PageStats stats = heap_.GetStats();
    size_t backed = 0, released = 0, backed_runs = 0, released_runs = 0;
    for (const struct Run& run : FreeRuns()) {
      (run.state == PageState::kBacked ? backed : released) += run.pages;
      ++(run.state == PageState::kBacked ? backed_runs : released_runs);
    }
    size_t small = 0, large = 0, large_spans = 0;
    for (const auto& [first, live] : live_) {
      (live.use == SpanState::kSmall ? small : large) += live.pages;
      large_spans += live.use == SpanState::kLarge;
    }
    EXPECT_EQ(stats.system_bytes, system_pages_ * kPageSize);
    EXPECT_EQ(stats.system_bytes, vm_.mapped_bytes());
    size_t cached = 0;
    for (const auto& cache : caches_) {
      for (const auto& [length, spans] : cache) cached += length * spans.size();
    }
    EXPECT_EQ(stats.free_backed_bytes, (backed + cached) * kPageSize);
    EXPECT_EQ(stats.free_released_bytes, released * kPageSize);
    EXPECT_EQ(stats.kept_span_bytes, cached * kPageSize);
    EXPECT_EQ(stats.backed_bytes,
              under_test_.arena.mapped_bytes() + (system_pages_ - released) * kPageSize);
    EXPECT_EQ(stats.releasing_bytes, 0u);
    EXPECT_EQ(stats.small_span_bytes, small * kPageSize);
    EXPECT_EQ(stats.large_span_bytes, large * kPageSize);
    EXPECT_EQ(stats.free_backed_spans, backed_runs);
    EXPECT_EQ(stats.free_released_spans, released_runs);
    EXPECT_EQ(stats.large_spans, large_spans);
    EXPECT_EQ(stats.growths, vm_.map_calls() - vm_.map_failures());
    EXPECT_EQ(stats.releases, releases_);
    EXPECT_EQ(stats.released_total_bytes, pages_released_ * kPageSize);
  }

  std::map<size_t, LiveSpan>::iterator RandomLive() {
    return std::next(live_.begin(), static_cast<ptrdiff_t>(random_.Below(live_.size())));
  }

  SeededRandom random_;
  const size_t granule_;
  PageHeapUnderTest under_test_;
  PageHeap& heap_ = under_test_.heap;
  FakeVirtualMemory& vm_ = under_test_.vm;
  const uintptr_t base_;

  // The model.
  std::vector<PageState> pages_;
  std::map<size_t, LiveSpan> live_;
  // The kept spans of each shard, by length.
  std::array<std::map<size_t, std::deque<Kept>>, kFuzzShards> caches_;
  ReleasePolicy policy_;
  double rate_ = kDefaultReleaseRate;
  size_t system_pages_ = 0;
  size_t most_in_use_ = 0;
  size_t releases_ = 0;
  size_t pages_released_ = 0;

  std::vector<std::pair<Span*, void*>> stale_;
  std::vector<Call> calls_;
  Call last_call_{};
  bool growing_ = true;
  std::map<std::string, size_t> events_;
};

// The place of each mapping: above the last one, below the last one, or adjacent to no other.
enum class Layout { kUpwards, kDownwards, kApart };

using Param = std::tuple<size_t, Layout>;

class PageHeapFuzzTest : public testing::TestWithParam<Param> {};

TEST_P(PageHeapFuzzTest, AgreesWithTheModel) {
  const auto& [hardware_page_size, layout] = GetParam();
  FakeVirtualMemory::Options options = FakeVirtualMemory::AddressOnly(kRangePages * kPageSize);
  options.hardware_page_size = hardware_page_size;
  options.placement = layout == Layout::kUpwards ? Placement::kUpwards : Placement::kDownwards;
  options.gaps = layout == Layout::kApart;
  Fuzzer(options, 11).Run(2000);
}

std::string Name(const testing::TestParamInfo<Param>& info) {
  const auto& [page, layout] = info.param;
  return std::to_string(page >> 10) + "KiB" +
         (layout == Layout::kUpwards     ? "Upwards"
          : layout == Layout::kDownwards ? "Downwards"
                                         : "Apart");
}

INSTANTIATE_TEST_SUITE_P(All, PageHeapFuzzTest,
                         testing::Combine(testing::Values(4096, 16384, 65536),
                                          testing::Values(Layout::kUpwards, Layout::kDownwards,
                                                          Layout::kApart)),
                         Name);

}  // namespace
}  // namespace tcmalloc
