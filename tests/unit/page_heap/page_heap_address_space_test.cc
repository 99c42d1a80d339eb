// SPDX-License-Identifier: BSD-3-Clause
// Compares how much address space a page heap takes with a naive model. The model has one list of
// free runs without states, uses the best fit, and grows by the missing length. The heap has free
// memory in two states, a policy that releases some of it, and limits. It may take at most a
// quarter more than the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "page_heap/page_heap.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

using Placement = FakeVirtualMemory::Placement;

constexpr size_t kLiveBytes = 500 * kMiB;
constexpr size_t kLimitBytes = 700 * kMiB;
// The smallest span that the test allocates.
constexpr size_t kSmallestBytes = size_t{264} << 10;

int64_t address_clock_ms = 0;

// Uses the best fit, and merges adjacent free runs. Grows upwards from page 0, by at least a MiB.
class AddressModel {
 public:
  size_t New(size_t pages, size_t alignment) {
    const size_t needed = pages + alignment - 1;
    auto fit = BestFit(needed);
    if (fit == free_.end()) {
      const size_t growth = std::max(needed, kMiB / kPageSize);
      Free(end_, growth);
      end_ += growth;
      fit = BestFit(needed);
    }
    const auto [first, length] = *fit;
    free_.erase(fit);
    const size_t start = (first + alignment - 1) / alignment * alignment;
    if (start > first) free_[first] = start - first;
    if (start + pages < first + length) free_[start + pages] = first + length - start - pages;
    return start;
  }
  // Extends [first, first + pages) by `more` pages. False if the pages after it are not free.
  bool Extend(size_t first, size_t pages, size_t more) {
    const auto at = free_.find(first + pages);
    if (at == free_.end() || at->second < more) return false;
    if (at->second > more) free_[at->first + more] = at->second - more;
    free_.erase(at);
    return true;
  }
  void Free(size_t first, size_t pages) {
    const auto at = free_.emplace(first, pages).first;
    JoinWithNext(at);
    if (at != free_.begin()) JoinWithNext(std::prev(at));
  }
  size_t bytes() const { return end_ * kPageSize; }

 private:
  using Runs = std::map<size_t, size_t>;  // first page -> length

  Runs::iterator BestFit(size_t needed) {
    auto best = free_.end();
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < needed) continue;
      if (best == free_.end() || at->second < best->second) best = at;
    }
    return best;
  }
  void JoinWithNext(Runs::iterator run) {
    const auto next = std::next(run);
    if (next == free_.end() || run->first + run->second != next->first) return;
    run->second += next->second;
    free_.erase(next);
  }

  Runs free_;
  size_t end_ = 0;
};

// The sizes that the program requests.
struct Sizes {
  const char* name;
  size_t most_bytes;      // the most bytes of a quarter of the objects
  size_t usual_bytes;     // of the others
  size_t most_alignment;  // in pages
  bool resizes;
};
constexpr Sizes kSizes[] = {
    {"Small", 1 * kMiB, 512 * 1024, 1, false},     {"Medium", 16 * kMiB, 2 * kMiB, 1, false},
    {"Aligned", 16 * kMiB, 2 * kMiB, 1024, false}, {"Resized", 16 * kMiB, 2 * kMiB, 1, true},
    {"Long", 100 * kMiB, 12 * kMiB, 1, false},     {"Huge", 400 * kMiB, 50 * kMiB, 1, false},
    {"AllHuge", 480 * kMiB, 480 * kMiB, 1, false},
};

enum class Limited { kNot, kSoft, kHard, kNowAndThen };
enum class Release { kByPolicy, kNever, kEager };

struct Case {
  const char* name = "";
  Sizes sizes = {};
  Limited limited = Limited::kNot;
  Release release = Release::kByPolicy;
  size_t hardware_page = 4096;
  Placement placement = Placement::kDownwards;
  bool hugepages = false;
};

class Trace {
 public:
  Trace(const Case& c, uint64_t seed)
      : case_(c),
        random_(seed),
        under_test_(Options(c), {.now_ms = [] { return address_clock_ms; }}) {
    if (c.hugepages) heap_.governor()->SetHugepages({HugepageMode::kAdvise});
    if (c.limited == Limited::kSoft) SetLimit(heap_, LimitKind::kSoft, kLimitBytes);
    if (c.limited == Limited::kHard) SetLimit(heap_, LimitKind::kHard, kLimitBytes);
    if (c.release == Release::kNever) heap_.governor()->SetReleaseRate(0);
    if (c.release == Release::kEager) heap_.governor()->SetReleasing(Releasing::kEager);
  }

  void Run(size_t steps) {
    for (size_t i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) {
      address_clock_ms += static_cast<int64_t>(random_.Below(10));
      if (case_.limited == Limited::kNowAndThen && random_.OneIn(50)) SetSomeLimit();
      if (random_.OneIn(500)) heap_.ReleaseAtLeast(Length(random_.Below(20000)));
      if (case_.sizes.resizes && random_.OneIn(3)) {
        ResizeSome();
      } else {
        NewSome();
      }
    }
    heap_.store()->CheckInvariants();
    const size_t metadata_bytes = under_test_.arena.mapped_bytes();
    printf("%zu MiB, the model %zu; %zu KiB of records\n", system_bytes() / kMiB,
           model_bytes() / kMiB, metadata_bytes >> 10);
    EXPECT_LE(metadata_bytes, kLiveBytes / 50) << "records";
  }

  size_t system_bytes() { return heap_.GetStats().system_bytes; }
  size_t model_bytes() const { return model_.bytes(); }

 private:
  struct Live {
    Span* span;
    size_t pages;
    size_t model_first;
  };

  static FakeVirtualMemory::Options Options(const Case& c) {
    FakeVirtualMemory::Options options = FakeVirtualMemory::AddressOnly(uint64_t{64} << 30);
    options.hardware_page_size = c.hardware_page;
    options.placement = c.placement;
    return options;
  }

  size_t SomePages() {
    const size_t most = random_.OneIn(4) ? case_.sizes.most_bytes : case_.sizes.usual_bytes;
    const size_t pages = random_.Between(kSmallestBytes / kPageSize, most / kPageSize);
    return heap_.RoundUp(Length(pages)).pages();
  }
  void DeleteSome() {
    const size_t i = random_.Below(live_.size());
    heap_.Delete(live_[i].span);
    model_.Free(live_[i].model_first, live_[i].pages);
    live_pages_ -= live_[i].pages;
    live_[i] = live_.back();
    live_.pop_back();
  }
  void MakeRoomFor(size_t pages) {
    while ((live_pages_ + pages) * kPageSize > kLiveBytes && !live_.empty()) DeleteSome();
  }
  void NewSome() {
    const size_t pages = SomePages();
    size_t alignment = 1;
    while (alignment < case_.sizes.most_alignment && random_.OneIn(2)) alignment *= 2;
    MakeRoomFor(pages);
    Span* const span = heap_.New(Length(pages), SpanState::kLarge, Length(alignment));
    ASSERT_NE(span, nullptr) << pages;
    live_.push_back({span, pages, model_.New(pages, alignment)});
    live_pages_ += pages;
  }
  // Resizes an object like realloc: in place if possible, else in another place.
  void ResizeSome() {
    if (live_.empty()) return;
    const size_t pages = SomePages();
    MakeRoomFor(pages);
    if (live_.empty()) return;
    Live& live = live_[random_.Below(live_.size())];
    live_pages_ += pages;
    live_pages_ -= live.pages;
    if (!heap_.ResizeLargeAt(live.span, live.span->start_address(), Length(pages))) {
      Span* const span = heap_.New(Length(pages), SpanState::kLarge);
      ASSERT_NE(span, nullptr) << pages;
      heap_.Delete(live.span);
      live.span = span;
    }
    if (pages <= live.pages) {
      if (pages < live.pages) model_.Free(live.model_first + pages, live.pages - pages);
    } else if (!model_.Extend(live.model_first, live.pages, pages - live.pages)) {
      const size_t first = model_.New(pages, 1);
      model_.Free(live.model_first, live.pages);
      live.model_first = first;
    }
    live.pages = pages;
  }
  void SetSomeLimit() {
    const LimitKind kind = random_.OneIn(2) ? LimitKind::kSoft : LimitKind::kHard;
    // The hard limit leaves room for a second copy of an object.
    const size_t bytes =
        kind == LimitKind::kHard ? 2 * kLimitBytes : random_.Between(1, kLimitBytes);
    SetLimit(heap_, kind, random_.OneIn(2) ? kNoLimit : bytes);
    heap_.ReleaseAboveLimits();
  }

  const Case case_;
  SeededRandom random_;
  PageHeapUnderTest under_test_;
  PageHeap& heap_ = under_test_.heap;
  AddressModel model_;
  std::vector<Live> live_;
  size_t live_pages_ = 0;
};

constexpr uint64_t kSeeds[] = {1, 2, 3, 4};

// The bound applies to the sum over the seeds: three objects may fill the heap, and one of them may
// be most of it, so one growth of the heap more or less is chance, in the model as well.
void RunAll(Case c) {
  for (const Sizes& sizes : kSizes) {
    // For objects of 400 MiB the model needs up to 1.4 GiB. 32-bit machines have no room for a
    // quarter more.
    if (sizes.most_bytes > FakeVirtualMemory::kMaxRange / 8) continue;
    SCOPED_TRACE(sizes.name);
    size_t system_bytes = 0;
    size_t model_bytes = 0;
    for (const uint64_t seed : kSeeds) {
      printf("%s: ", sizes.name);
      c.sizes = sizes;
      Trace trace(c, seed);
      trace.Run(sizes.most_bytes <= kMiB ? 20000 : 6000);
      system_bytes += trace.system_bytes() / kMiB;
      model_bytes += trace.model_bytes() / kMiB;
    }
    EXPECT_LE(system_bytes * 4, model_bytes * 5) << system_bytes << " for " << model_bytes;
  }
}

constexpr Case kCases[] = {
    {.name = "WithoutLimits"},
    {.name = "SoftLimit", .limited = Limited::kSoft},
    {.name = "HardLimit", .limited = Limited::kHard},
    {.name = "LimitsNowAndThen", .limited = Limited::kNowAndThen},
    {.name = "NothingIsReleased", .release = Release::kNever},
    {.name = "AllIsReleasedAtOnce", .release = Release::kEager},
    {.name = "Upwards", .limited = Limited::kSoft, .placement = Placement::kUpwards},
    {.name = "LargePages", .limited = Limited::kSoft, .hardware_page = 65536},
    {.name = "Hugepages", .hugepages = true},
    {.name = "HugepagesAndSoftLimit", .limited = Limited::kSoft, .hugepages = true},
};

class PageHeapSpaceTakenTest : public testing::TestWithParam<Case> {};

TEST_P(PageHeapSpaceTakenTest, AtMostAQuarterMore) { RunAll(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Cases, PageHeapSpaceTakenTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tcmalloc
