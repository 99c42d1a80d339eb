// SPDX-License-Identifier: BSD-3-Clause
// Tests when pages of large objects are moved, the state of both places afterwards, and the
// contents.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "page_heap/page_heap.h"
#include "page_heap_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/random.h"
#include "testing/sizes.h"

namespace tcmalloc {
namespace {

using Call = FakeVirtualMemory::Call;
using Kind = FakeVirtualMemory::Kind;

FakeVirtualMemory::Options Backed(size_t hardware_page_size) {
  FakeVirtualMemory::Options options;
  options.hardware_page_size = hardware_page_size;
  return options;
}

// Every word of an object contains the object's number and the word's position.
uint64_t WordAt(uint64_t object, size_t i) { return object << 32 | i; }

int64_t move_clock_ms = 0;

struct MovingHeap {
  explicit MovingHeap(HugepageMode mode, Length threshold = Length(0),
                      size_t hardware_page_size = 4096)
      : under_test(Backed(hardware_page_size),
                   {.hugepage_threshold = threshold, .now_ms = [] { return move_clock_ms; }}) {
    heap.governor()->SetReleaseRate(0);
    heap.governor()->SetHugepages({mode});
    vm.RecordCalls();
  }
  ~MovingHeap() { Check(); }

  Span* New(Length n, uint64_t object) {
    Span* const span = heap.New(n, SpanState::kLarge);
    EXPECT_NE(span, nullptr);
    if (span != nullptr) Fill(span, Length(0), object);
    return span;
  }
  Span* Move(Span* span, Length n) { return heap.MoveLargeAt(span, span->start_address(), n); }
  bool Resize(Span* span, Length n) { return heap.ResizeLargeAt(span, span->start_address(), n); }
  // Writes to all pages except the first `kept` ones.
  void Fill(Span* span, Length kept, uint64_t object) {
    vm.Touch((span->first_page + kept).start_address(), span->bytes() - kept.bytes());
    auto* const words = static_cast<uint64_t*>(span->start_address());
    for (size_t i = kept.bytes() / 8; i < span->bytes() / 8; ++i) words[i] = WordAt(object, i);
  }
  // Checks that the first `n` pages have the contents that were written.
  static void ExpectHolds(const Span* span, Length n, uint64_t object) {
    const auto* const words = static_cast<const uint64_t*>(span->start_address());
    size_t wrong = 0;
    for (size_t i = 0; i < n.bytes() / 8; ++i) wrong += words[i] != WordAt(object, i);
    EXPECT_EQ(wrong, 0u) << "of object " << object << ", " << n.pages() << " pages";
  }
  size_t Count(Kind kind) {
    size_t count = 0;
    for (const Call& call : vm.TakeCalls()) count += call.kind == kind;
    return count;
  }
  void Check() {
    EXPECT_FALSE(heap.address_space().is_moving());
    EXPECT_EQ(vm.mapped_bytes(), heap.GetStats().system_bytes);
    CheckReleasedPagesAreNotBacked(under_test);
  }

  PageHeapUnderTest under_test;
  PageHeap& heap = under_test.heap;
  FakeVirtualMemory& vm = under_test.vm;
};

TEST(PageHeapMoveTest, MovesInsteadOfTakingFreshMemoryForACopy) {
  MovingHeap h(HugepageMode::kNever);
  move_clock_ms = 5000;
  Span* const object = h.New(MiB(3), 1);
  Span* const behind = h.New(MiB(60), 2);
  ASSERT_EQ(behind->first_page, object->first_page + MiB(3));
  ASSERT_FALSE(h.Resize(object, MiB(5)));
  const PageId was = object->first_page;
  const size_t resident = h.vm.resident_bytes();
  move_clock_ms = 6000;
  Span* const moved = h.Move(object, MiB(5));
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(moved->in_use.handed_out_ms, 5000) << "it is the same object";
  EXPECT_EQ(h.Count(Kind::kMove), 1u);
  EXPECT_EQ(moved->num_pages, MiB(5));
  EXPECT_EQ(moved->state.load(), SpanState::kLarge);
  MovingHeap::ExpectHolds(moved, MiB(3), 1);
  EXPECT_EQ(h.vm.resident_bytes(), resident) << "nothing was copied, nothing is there twice";
  const PageStats stats = h.heap.GetStats();
  EXPECT_EQ(stats.moves, 1u);
  EXPECT_EQ(stats.large_spans, 2u);
  EXPECT_EQ(stats.large_span_bytes, MiB(65).bytes());
  h.Check();
  // The old place is free and unbacked, and serves other requests.
  Span* const next = h.heap.New(MiB(3), SpanState::kLarge);
  EXPECT_EQ(next->first_page, was);
  EXPECT_TRUE(next->zeroed());
  // The moved span is like any other.
  EXPECT_TRUE(h.heap.DeleteLargeAt(moved, moved->start_address()));
  EXPECT_EQ(h.heap.ReleaseAtLeast(kAllPages), MiB(5));
}

TEST(PageHeapMoveTest, DoesNotMoveShortObjectsOrWhereFreeMemoryFits) {
  MovingHeap h(HugepageMode::kNever);
  Span* const small = h.New(MiB(1) - Length(2), 1);
  Span* const large = h.New(MiB(4), 2);
  Span* const other = h.New(MiB(6), 3);
  Span* const last = h.New(MiB(1), 4);
  EXPECT_EQ(h.Move(small, MiB(9)), nullptr);
  EXPECT_EQ(h.Move(large, MiB(4)), nullptr) << "that is no growth";
  EXPECT_EQ(h.Move(large, MiB(3)), nullptr);
  ASSERT_TRUE(h.heap.DeleteLargeAt(other, other->start_address()));
  EXPECT_EQ(h.Move(large, MiB(6)), nullptr) << "6 MiB are free";
  EXPECT_EQ(h.Count(Kind::kMove), 0u);
  EXPECT_NE(h.Move(last, MiB(7)), nullptr) << "7 are not";
}

TEST(PageHeapMoveTest, NotALargeObjectOfThisHeap) {
  MovingHeap h(HugepageMode::kNever);
  Span* const object = h.New(MiB(3), 1);
  char* const start = static_cast<char*>(object->start_address());
  EXPECT_EQ(h.heap.MoveLargeAt(object, start + 8, MiB(9)), nullptr);
  Span* const small = h.heap.New(MiB(3), SpanState::kSmall);
  EXPECT_EQ(h.heap.MoveLargeAt(small, small->start_address(), MiB(9)), nullptr);
  EXPECT_EQ(h.heap.MoveLargeAt(object, start, Length(SIZE_MAX >> kPageShift)), nullptr);
}

TEST(PageHeapMoveTest, LockedMemoryIsNotMoved) {
  MovingHeap h(HugepageMode::kNever);
  Span* const object = h.New(MiB(3), 1);
  h.vm.TakeCalls();
  h.vm.RefuseMayMove(1);
  EXPECT_EQ(h.Move(object, MiB(90)), nullptr);
  EXPECT_TRUE(h.vm.TakeCalls().empty());
  // It is not moved to a place where it would be locked, either.
  const size_t mapped = h.vm.mapped_bytes();
  h.vm.RefuseMayMove(2);
  EXPECT_EQ(h.Move(object, MiB(90)), nullptr);
  EXPECT_EQ(h.Count(Kind::kMove), 0u);
  EXPECT_EQ(h.vm.mapped_bytes(), mapped);
}

TEST(PageHeapMoveTest, WithoutAddressSpaceOrRecordsItIsCopied) {
  MovingHeap h(HugepageMode::kNever);
  Span* const object = h.New(MiB(3), 1);
  h.vm.FailMap(1);
  EXPECT_EQ(h.Move(object, MiB(90)), nullptr);
  h.Check();
  // Uses up all records.
  for (size_t spare = 0; spare < 100; ++spare) {
    h.under_test.metadata_vm.FailMap(1, FakeVirtualMemory::kForever);
    while (h.under_test.arena.Allocate(8) != nullptr) {
    }
    Span* const more = h.heap.New(Length(1), SpanState::kLarge);
    if (more == nullptr) break;
  }
  const size_t mapped = h.vm.mapped_bytes();
  EXPECT_EQ(h.Move(object, MiB(90)), nullptr);
  EXPECT_EQ(h.vm.mapped_bytes(), mapped);
  h.under_test.metadata_vm.StopFailing();
  EXPECT_NE(h.Move(object, MiB(90)), nullptr) << "no record was lost";
}

TEST(PageHeapMoveTest, MemoryThatIsNotZeroFilledIsNotMoved) {
  MovingHeap h(HugepageMode::kNever);
  h.vm.SetZeroFilled(false);
  Span* const object = h.New(MiB(3), 1);
  h.vm.SetZeroFilled(true);
  EXPECT_EQ(h.Move(object, MiB(90)), nullptr);
  Span* const own = h.New(MiB(80), 2);
  // The heap grew by memory from another source for the move. That memory stays in the heap.
  h.vm.SetZeroFilled(false);
  EXPECT_EQ(h.Move(own, MiB(90)), nullptr);
  EXPECT_EQ(h.Count(Kind::kMove), 0u);
  EXPECT_EQ(h.heap.GetStats().system_bytes, h.vm.mapped_bytes());
  const size_t mapped = h.vm.mapped_bytes();
  EXPECT_NE(h.heap.New(MiB(90), SpanState::kLarge), nullptr);
  EXPECT_EQ(h.vm.mapped_bytes(), mapped);
}

TEST(PageHeapMoveTest, WholeHugepagesAreMovedAndTheEndsCopied) {
  MovingHeap h(HugepageMode::kAdvise);
  h.New(Length(100), 9);
  Span* const object = h.New(MiB(9), 1);
  h.New(MiB(1), 2);
  ASSERT_NE(object->first_page, HugepageStart(object->first_page)) << "after the first one";
  const Length offset = object->first_page - HugepageStart(object->first_page);
  h.vm.TakeCalls();
  Span* const moved = h.Move(object, MiB(40));
  ASSERT_NE(moved, nullptr);
  size_t moved_bytes = 0;
  bool advised = false;
  for (const Call& call : h.vm.TakeCalls()) {
    if (call.kind == Kind::kHugepages) {
      EXPECT_EQ(call.start, HugepageStart(moved->first_page).start_uintptr());
      EXPECT_EQ(call.bytes, InWholeHugepages(offset + MiB(40)).bytes());
      advised = true;
    }
    if (call.kind != Kind::kMove) continue;
    moved_bytes += call.bytes;
    EXPECT_EQ(call.start % kHugepageSize, 0u);
  }
  EXPECT_TRUE(advised);
  EXPECT_EQ(moved_bytes, MiB(6).bytes()) << "1.2 MiB before it, 1.8 after it";
  EXPECT_EQ(moved->first_page - HugepageStart(moved->first_page), offset);
  MovingHeap::ExpectHolds(moved, MiB(9), 1);
  // Both the heap and the OS use hugepages for the whole new place.
  const PageStats stats = h.heap.GetStats();
  EXPECT_EQ(stats.hugepage_bytes, stats.system_bytes);
  h.Fill(moved, MiB(9), 1);
  h.Check();
  // Moves the object a second time, from the end of the first place.
  h.New(MiB(1), 3);
  Span* const again = h.Move(moved, MiB(60));
  ASSERT_NE(again, nullptr);
  MovingHeap::ExpectHolds(again, MiB(40), 1);
}

TEST(PageHeapMoveTest, NotInSmallPagesWhereTheHeapGrowsByHugepages) {
  MovingHeap h(HugepageMode::kAdvise, MiB(32));
  Span* const object = h.New(MiB(3), 1);
  h.New(MiB(4), 2);
  EXPECT_EQ(h.heap.GetStats().hugepage_bytes, 0u);
  h.New(MiB(20), 3);
  EXPECT_EQ(h.Move(object, MiB(60)), nullptr);
}

TEST(PageHeapMoveTest, NotWhereOnlyAPartHasHugepages) {
  MovingHeap h(HugepageMode::kAdvise);
  Span* const object = h.New(MiB(100), 1);
  h.heap.address_space().StopHugepagesAt(object->first_page + MiB(1), true);
  ASSERT_GT(h.heap.GetStats().hugepage_bytes, 0u);
  EXPECT_EQ(h.Move(object, MiB(300)), nullptr);
}

TEST(PageHeapMoveTest, AdviceThatComesMeanwhileDoesNotMatter) {
  MovingHeap h(HugepageMode::kAdvise);
  Span* const object = h.New(MiB(20), 1);
  h.New(MiB(1), 2);
  const PageId was = object->first_page;
  h.vm.OnNextMove([&] { h.heap.address_space().StopHugepagesAt(was + MiB(4), true); });
  Span* const moved = h.Move(object, MiB(40));
  ASSERT_NE(moved, nullptr);
  h.Fill(moved, MiB(20), 1);
}

TEST(PageHeapMoveTest, KeepsToTheLimits) {
  MovingHeap h(HugepageMode::kNever);
  Span* const object = h.New(MiB(10), 1);
  h.New(MiB(10), 2);
  const size_t records = h.heap.GetStats().backed_bytes - MiB(20).bytes();
  SetLimit(h.heap, LimitKind::kHard, MiB(1000).bytes());
  EXPECT_EQ(h.Move(object, MiB(24)), nullptr) << "several at once might not fit";
  SetLimit(h.heap, LimitKind::kHard, kNoLimit);
  SetLimit(h.heap, LimitKind::kSoft, MiB(35).bytes() + records);
  EXPECT_EQ(h.Move(object, MiB(30)), nullptr) << "40 in all";
  EXPECT_NE(h.Move(object, MiB(24)), nullptr) << "34, and never both places";
  EXPECT_LE(h.heap.GetStats().backed_bytes, LimitOf(h.heap, LimitKind::kSoft));
}

TEST(PageHeapMoveTest, MovesAreNumbered) {
  MovingHeap h(HugepageMode::kNever);
  size_t moves = 0;
  const auto move = [&](Span*& object) {
    Span* const moved = h.Move(object, MiB(1) + Length(1));
    if (moved == nullptr) return;
    ++moves;
    object = moved;
  };
  // The heap never has a free span that fits. Every second time another thread moves an object
  // meanwhile, also when one move is left.
  for (size_t i = 0; i < 1100; ++i) {
    Span* object = h.heap.New(MiB(1), SpanState::kLarge);
    Span* other = h.heap.New(MiB(1), SpanState::kLarge);
    ASSERT_TRUE(object != nullptr && other != nullptr);
    if (i % 2 == 0) h.vm.OnNextMap([&] { move(other); });
    move(object);
    h.vm.OnNextMap(nullptr);
    for (Span* each : {object, other}) {
      ASSERT_TRUE(h.heap.DeleteLargeAt(each, each->start_address()));
    }
    h.heap.ReleaseAtLeast(kAllPages);
  }
  EXPECT_EQ(moves, 1000u);
  EXPECT_EQ(h.heap.GetStats().moves, 1000u);
}

struct Setting {
  const char* name;
  HugepageMode mode;
  Length hugepage_threshold;
  size_t hardware_page_size;
  uint64_t seed;
  size_t least_moves;
};

class PageHeapMoveRandomTest : public testing::TestWithParam<Setting> {};

TEST_P(PageHeapMoveRandomTest, ObjectsHoldWhatWasWritten) {
  struct Live {
    Span* span;
    Length n;
    uint64_t number;
  };
  SeededRandom random(GetParam().seed);
  MovingHeap h(GetParam().mode, GetParam().hugepage_threshold, GetParam().hardware_page_size);
  std::vector<Live> live;
  uint64_t numbers = 0;
  size_t moves = 0;
  for (int step = 0; step < 400; ++step) {
    const size_t action = random.Below(10);
    if (action < 3 || live.empty()) {
      const Length n(random.Between(1, random.OneIn(3) ? 1500 : 40));
      if (live.size() < 16) {
        Span* const span = h.New(n, ++numbers);
        ASSERT_NE(span, nullptr);
        live.push_back({span, span->num_pages, numbers});
      }
      continue;
    }
    Live& chosen = live[random.Below(live.size())];
    if (action < 5) {
      MovingHeap::ExpectHolds(chosen.span, chosen.n, chosen.number);
      ASSERT_TRUE(h.heap.DeleteLargeAt(chosen.span, chosen.span->start_address()));
      chosen = live.back();
      live.pop_back();
    } else if (action < 9) {
      if (chosen.n.pages() > 3000) continue;
      const Length n = chosen.n + Length(random.Between(1, 600));
      if (random.OneIn(5)) h.vm.FailMove(1);
      if (random.OneIn(20)) h.vm.FailMap(1, random.Between(1, 2));
      if (Span* const moved = h.Move(chosen.span, n)) {
        ++moves;
        chosen.span = moved;
      } else if (!h.Resize(chosen.span, n)) {
        h.vm.StopFailing();
        continue;
      }
      h.vm.StopFailing();
      MovingHeap::ExpectHolds(chosen.span, chosen.n, chosen.number);
      h.Fill(chosen.span, chosen.n, chosen.number);
      chosen.n = chosen.span->num_pages;
    } else {
      h.heap.ReleaseAtLeast(Length(random.Between(1, 2000)));
    }
    if (step % 50 == 0) {
      ASSERT_NO_FATAL_FAILURE(h.Check());
    }
  }
  for (const Live& object : live) MovingHeap::ExpectHolds(object.span, object.n, object.number);
  EXPECT_GE(moves, GetParam().least_moves);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, PageHeapMoveRandomTest,
    testing::Values(Setting{"Pages4KiB", HugepageMode::kNever, Length(0), 4096, 1, 10},
                    Setting{"Pages64KiB", HugepageMode::kNever, Length(0), 65536, 2, 10},
                    Setting{"Hugepages", HugepageMode::kAdvise, Length(0), 4096, 3, 1},
                    Setting{"HugepagesFrom40MiB", HugepageMode::kAdvise, MiB(40), 4096, 4, 1},
                    Setting{"HugepagesAlways", HugepageMode::kAlways, Length(0), 4096, 7, 1}),
    [](const testing::TestParamInfo<Setting>& info) { return info.param.name; });

}  // namespace
}  // namespace tcmalloc
