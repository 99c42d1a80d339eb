// SPDX-License-Identifier: BSD-3-Clause
// Compares the figures of a heap with a program that knows its own objects.
#include "stats/stats.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cache/cache_fixture.h"
#include "cache/registry_totals.h"
#include "heap/new_heap.h"
#include "heap/trim.h"
#include "testing/kept_spans.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

void ExpectSum(const HeapStats& s) {
  EXPECT_EQ(s.system_bytes, s.in_use_bytes + s.thread_cache_bytes + s.central_bytes +
                                s.span_tail_bytes + s.page_heap_free_bytes + s.released_bytes);
}

TEST(StatsTest, AnEmptyHeap) {
  Heap& heap = NewHeap();
  const HeapStats s = CollectStats(heap);
  ExpectSum(s);
  EXPECT_EQ(s.system_bytes, 0u);
  EXPECT_EQ(s.in_use_bytes, 0u);
  EXPECT_EQ(s.metadata_bytes, 0u);
  EXPECT_EQ(s.spans_in_use, 0u);
  EXPECT_EQ(s.thread_caches, 0u);
  EXPECT_EQ(s.growths, 0u);
}

// Does random operations. While no operation is running, the figures are exact.
TEST(StatsTest, ExactWhenQuiet) {
  constexpr uint64_t kSeed = 8642;
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(10);
  TestThread one(heap.registry);
  TestThread two(heap.registry);
  struct Small {
    SizeClass c;
    void* object;
  };
  std::vector<Small> small;
  std::vector<Span*> large;
  size_t small_bytes = 0;
  size_t large_bytes = 0;
  std::vector<size_t> objects_of_class(kNumSizeClasses);
  SeededRandom random(kSeed);
  for (int step = 0; step < 6000; ++step) {
    TestThread& thread = random.OneIn(2) ? one : two;
    switch (random.Below(8)) {
      case 0:
      case 1:
      case 2: {
        const SizeClass c = static_cast<SizeClass>(random.Between(1, kNumSizeClasses - 1));
        small.push_back({c, thread.Allocate(c)});
        ASSERT_NE(small.back().object, nullptr);
        small_bytes += kSizeClasses.size(c);
        ++objects_of_class[Index(c)];
        break;
      }
      case 3:
      case 4:
      case 5: {
        if (small.empty()) break;
        std::swap(small[random.Below(small.size())], small.back());
        const Small s = small.back();
        small.pop_back();
        thread.Free(s.c, s.object);
        small_bytes -= kSizeClasses.size(s.c);
        --objects_of_class[Index(s.c)];
        break;
      }
      case 6: {
        const Length n(random.Between(33, 300));
        large.push_back(heap.page_heap.New(n, SpanState::kLarge));
        ASSERT_NE(large.back(), nullptr);
        large_bytes += large.back()->bytes();
        break;
      }
      default: {
        if (large.empty()) break;
        std::swap(large[random.Below(large.size())], large.back());
        large_bytes -= large.back()->bytes();
        heap.page_heap.Delete(large.back());
        large.pop_back();
        if (random.OneIn(20)) one.cache()->Flush();
        if (random.OneIn(20)) heap.page_heap.ReleaseAtLeast(Length(random.Between(1, 1000)));
      }
    }
    if (step % 100 != 0) continue;
    const HeapStats s = CollectStats(heap);
    ExpectSum(s);
    ASSERT_EQ(s.in_use_bytes, small_bytes + large_bytes);
    ASSERT_EQ(s.large_bytes, large_bytes);
    ASSERT_EQ(s.large_objects, large.size());
    ASSERT_EQ(s.thread_caches, 2u);
    ASSERT_EQ(s.thread_cache_bytes,
              one.cache()->table().CachedBytes() + two.cache()->table().CachedBytes());
    ASSERT_EQ(s.metadata_bytes, heap.arena.mapped_bytes());
    size_t spans = large.size();
    size_t thread_cache_bytes = 0;
    size_t central_bytes = 0;
    size_t tails = 0;
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SizeClass c = static_cast<SizeClass>(i);
      const SizeClassStats of_class = CollectSizeClassStats(heap, c);
      ASSERT_EQ(of_class.object_size, kSizeClasses.size(c));
      ASSERT_EQ(of_class.in_use_objects, objects_of_class[i]);
      spans += of_class.spans;
      thread_cache_bytes += of_class.thread_cache_objects * of_class.object_size;
      central_bytes += of_class.central_objects * of_class.object_size;
      tails += heap.central.free_list(c).tail_bytes();
    }
    ASSERT_EQ(s.spans_in_use, spans);
    ASSERT_EQ(s.thread_cache_bytes, thread_cache_bytes);
    ASSERT_EQ(s.central_bytes, central_bytes);
    ASSERT_EQ(s.span_tail_bytes, tails);
  }
  EXPECT_GT(CollectStats(heap).released_total_bytes, 0u);
  // After everything is freed and released, nothing is in use and nothing is in a cache.
  for (const Small& s : small) one.Free(s.c, s.object);
  for (Span* const span : large) heap.page_heap.Delete(span);
  one.Exit();
  two.Exit();
  const HeapStats s = CollectStats(heap);
  ExpectSum(s);
  EXPECT_EQ(s.in_use_bytes, 0u);
  EXPECT_EQ(s.thread_cache_bytes + s.central_bytes, 0u);
  EXPECT_EQ(s.spans_in_use, 0u);
  EXPECT_EQ(s.thread_caches, 0u);
  EXPECT_EQ(s.page_heap_free_bytes + s.released_bytes, s.system_bytes);
}

// While threads run, no figure is larger than the heap, and none is below zero (a huge number).
TEST(StatsTest, BoundedWhileThreadsRun) {
  Heap& heap = NewHeap();
  std::atomic<size_t> running{4};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&heap, &running, t] {
      TestThread thread(heap.registry);
      SeededRandom random(t);
      std::vector<std::pair<SizeClass, void*>> held;
      for (int step = 0; step < 10000; ++step) {
        const SizeClass c = static_cast<SizeClass>(random.Between(1, kNumSizeClasses - 1));
        if (held.size() < 50 && random.OneIn(2)) {
          held.emplace_back(c, thread.Allocate(c));
        } else if (!held.empty()) {
          thread.Free(held.back().first, held.back().second);
          held.pop_back();
        }
        if (step % 1000 == 0) thread.cache()->Flush();
      }
      for (const auto& [c, object] : held) thread.Free(c, object);
      thread.Exit();
      running.fetch_sub(1);
    });
  }
  while (running.load() > 0) {
    const HeapStats s = CollectStats(heap);
    const size_t most = CollectStats(heap).system_bytes + (size_t{64} << 20);
    for (const size_t figure : {s.in_use_bytes, s.thread_cache_bytes, s.central_bytes,
                                s.span_tail_bytes, s.page_heap_free_bytes, s.released_bytes}) {
      ASSERT_LE(figure, most);
    }
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SizeClassStats c = CollectSizeClassStats(heap, static_cast<SizeClass>(i));
      ASSERT_LE(c.in_use_objects * c.object_size, most);
    }
  }
  for (std::thread& thread : threads) thread.join();
  const HeapStats s = CollectStats(heap);
  ExpectSum(s);
  EXPECT_EQ(s.in_use_bytes, 0u);
  EXPECT_EQ(s.spans_in_use, 0u);
}

std::string Text(Heap& heap, int level) {
  std::vector<char> buffer(size_t{64} << 10);
  TextWriter out(buffer.data(), buffer.size());
  WriteStats(heap, level, &out);
  EXPECT_FALSE(out.truncated());
  return std::string(out.text());
}

// The number at the beginning of the line that ends in `what`.
size_t NumberOf(const std::string& text, const std::string& what) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < what.size() ||
        line.compare(line.size() - what.size(), what.size(), what) != 0)
      continue;
    return std::stoull(line.substr(line.find_first_of("0123456789")));
  }
  ADD_FAILURE() << "no line about " << what << " in\n" << text;
  return 0;
}

TEST(StatsTest, TheTextHasTheFigures) {
  Heap& heap = NewHeap();
  TestThread thread(heap.registry);
  const SizeClass c = ClassForSize(1024);
  std::vector<void*> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(thread.Allocate(c));
  for (int i = 0; i < 30; ++i) thread.Free(c, objects[static_cast<size_t>(i)]);
  Span* const span = heap.page_heap.New(Length(40), SpanState::kLarge);
  const HeapStats s = CollectStats(heap);
  EXPECT_EQ(s.in_use_bytes, 70 * 1024 + Length(40).bytes());
  const std::string text = Text(heap, 1);
  EXPECT_EQ(NumberOf(text, "Bytes in use by application"), s.in_use_bytes);
  EXPECT_EQ(NumberOf(text, "Bytes in page heap freelist"), s.page_heap_free_bytes);
  EXPECT_EQ(NumberOf(text, "Bytes in central cache freelist"), s.central_bytes + s.span_tail_bytes);
  EXPECT_EQ(NumberOf(text, "Bytes in transfer cache freelist"), 0u);
  EXPECT_EQ(NumberOf(text, "Bytes in thread cache freelists"), s.thread_cache_bytes);
  EXPECT_EQ(NumberOf(text, "Bytes in span tails"), s.span_tail_bytes);
  EXPECT_EQ(NumberOf(text, "Bytes in malloc metadata"), s.metadata_bytes);
  EXPECT_EQ(NumberOf(text, "Actual memory used (physical + swap)"),
            s.system_bytes - s.released_bytes + s.metadata_bytes);
  EXPECT_EQ(NumberOf(text, "Bytes released to OS (aka unmapped)"), s.released_bytes);
  EXPECT_EQ(NumberOf(text, "Virtual address space used"), s.system_bytes + s.metadata_bytes);
  EXPECT_EQ(NumberOf(text, "Spans in use"), 2u);
  EXPECT_EQ(NumberOf(text, "Thread heaps in use"), 1u);
  EXPECT_EQ(NumberOf(text, "Tcmalloc page size"), kPageSize);
  EXPECT_EQ(text.find("MALLOC: class"), std::string::npos);
  heap.page_heap.Delete(span);
}

// Memory that was released inside spans in use does not count as in use.
TEST(StatsTest, HolesAreReleasedMemory) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(0);
  TestThread thread(heap.registry);
  const SizeClass c = ClassForSize(4096);
  std::vector<void*> objects;
  for (int i = 0; i < 200; ++i) objects.push_back(thread.Allocate(c));
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 4 != 0) thread.Free(c, objects[i]);
  }
  // The owner flushes its cache. Another thread would need the barrier of the process's own heap,
  // which may not exist.
  heap.registry.FlushAll(thread.cache());
  Trim(heap, SIZE_MAX);
  const HeapStats s = CollectStats(heap);
  ExpectSum(s);
  EXPECT_GE(s.hole_bytes, 150u * 4096);
  EXPECT_LE(s.hole_bytes, s.central_bytes);
  EXPECT_EQ(NumberOf(Text(heap, 1), "Bytes released to OS inside spans in use"), s.hole_bytes);
}

// The text has lines about limits if there are any.
TEST(StatsTest, LimitsAreInTheText) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(0);
  EXPECT_EQ(Text(heap, 1).find("limit"), std::string::npos);
  heap.page_heap.governor()->SetLimit(LimitKind::kHard, size_t{100} << 20);
  EXPECT_EQ(NumberOf(Text(heap, 1), "hard limit (0 for none)"), size_t{100} << 20);
  EXPECT_EQ(Text(heap, 1).find("soft"), std::string::npos);
  heap.page_heap.governor()->SetLimit(LimitKind::kSoft, size_t{50} << 20);
  EXPECT_EQ(heap.page_heap.New(Length::ForBytes(size_t{200} << 20), SpanState::kLarge), nullptr);
  heap.page_heap.Delete(heap.page_heap.New(Length::ForBytes(size_t{60} << 20), SpanState::kLarge));
  std::string text = Text(heap, 1);
  EXPECT_EQ(NumberOf(text, "soft limit (0 for none)"), size_t{50} << 20);
  EXPECT_EQ(NumberOf(text, "Times that the hard limit was reached"), 1u);
  EXPECT_EQ(NumberOf(text, "hard limit: bytes released because of it"), 0u);
  EXPECT_EQ(NumberOf(text, "Times that the soft limit was reached"), 1u);
  const HeapStats s = CollectStats(heap);
  EXPECT_GT(s.soft_limit.released_bytes, 0u);
  EXPECT_EQ(NumberOf(text, "soft limit: bytes released because of it"),
            s.soft_limit.released_bytes);
  // Counts of past events stay.
  heap.page_heap.governor()->SetLimit(LimitKind::kHard, kNoLimit);
  text = Text(heap, 1);
  EXPECT_EQ(NumberOf(text, "hard limit (0 for none)"), 0u);
  EXPECT_EQ(NumberOf(text, "Times that the hard limit was reached"), 1u);
}

// Free spans by their length add up to all free memory.
void ExpectLengthsAddUp(const HeapSnapshot& s) {
  size_t backed_bytes = s.free_spans.longer_backed_bytes;
  size_t released_bytes = s.free_spans.longer_released_bytes;
  for (size_t i = 0; i < s.free_spans.exact.size(); ++i) {
    backed_bytes += Length(i + 1).bytes() * s.free_spans.exact[i].backed;
    released_bytes += Length(i + 1).bytes() * s.free_spans.exact[i].released;
  }
  EXPECT_EQ(backed_bytes, s.totals.page_heap_free_bytes);
  EXPECT_EQ(released_bytes, s.totals.released_bytes);
}

TEST(StatsTest, FreeSpansAreCountedByLength) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(0);
  HeapSnapshot snapshot;
  CollectSnapshot(heap, &snapshot);
  ExpectLengthsAddUp(snapshot);
  // All spans lie in one run. The pages between them keep the free spans apart.
  heap.page_heap.Delete(heap.page_heap.New(Length(1024), SpanState::kLarge));
  std::vector<Span*> spans;
  for (const size_t pages : {300, 1, 3, 1, 200, 1, 3, 1, 128, 1, 5, 1}) {
    spans.push_back(heap.page_heap.New(Length(pages), SpanState::kLarge));
    ASSERT_NE(spans.back(), nullptr);
  }
  for (const size_t i : {0, 2, 4, 6, 8, 10}) heap.page_heap.Delete(spans[i]);
  CollectSnapshot(heap, &snapshot);
  ExpectLengthsAddUp(snapshot);
  EXPECT_EQ(snapshot.free_spans.exact[3 - 1].backed, 2u);
  EXPECT_EQ(snapshot.free_spans.exact[5 - 1].backed, 1u);
  EXPECT_EQ(snapshot.free_spans.exact[128 - 1].backed, 1u);
  EXPECT_GE(snapshot.free_spans.longer.backed, 2u);
  EXPECT_GE(snapshot.free_spans.longer_backed_bytes, Length(500).bytes());
  heap.page_heap.ReleaseAtLeast(Length(1 << 20));
  CollectSnapshot(heap, &snapshot);
  ExpectLengthsAddUp(snapshot);
  EXPECT_EQ(snapshot.free_spans.exact[3 - 1].backed, 0u);
  EXPECT_EQ(snapshot.free_spans.exact[3 - 1].released, 2u);
  EXPECT_EQ(snapshot.free_spans.longer.backed, 0u);
  EXPECT_EQ(snapshot.free_spans.longer_backed_bytes, 0u);
  EXPECT_GE(snapshot.free_spans.longer.released, 2u);
  EXPECT_GE(snapshot.free_spans.longer_released_bytes, Length(500).bytes());
  // A span that a shard keeps for its next use is free as well.
  Span* const kept = heap.page_heap.NewNear(Length(7), heap.central.shards().Ensure(0).home());
  ASSERT_NE(kept, nullptr);
  DeleteToCache(heap.page_heap, kept, heap.central.shards().Ensure(0).home(), true);
  CollectSnapshot(heap, &snapshot);
  ExpectLengthsAddUp(snapshot);
  EXPECT_EQ(snapshot.free_spans.exact[7 - 1].backed, 1u);
}

// The classes are counted once: the totals are their sums, and all formats have the same figures.
TEST(StatsTest, ASnapshotIsOneCount) {
  Heap& heap = NewHeap();
  TestThread thread(heap.registry);
  std::vector<std::pair<SizeClass, void*>> objects;
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    const SizeClass c = static_cast<SizeClass>(i);
    for (size_t n = 0; n < i % 5; ++n) objects.emplace_back(c, thread.Allocate(c));
  }
  for (size_t i = 0; i < objects.size(); i += 3) thread.Free(objects[i].first, objects[i].second);
  HeapSnapshot snapshot;
  CollectSnapshot(heap, &snapshot);
  ExpectSum(snapshot.totals);
  ExpectLengthsAddUp(snapshot);
  HeapStats sums;
  for (const SizeClassStats& of_class : snapshot.classes) {
    sums.in_use_bytes += of_class.in_use_objects * of_class.object_size;
    sums.thread_cache_bytes += of_class.thread_cache_objects * of_class.object_size;
    sums.central_bytes += of_class.central_objects * of_class.object_size;
    sums.spans_in_use += of_class.spans;
  }
  EXPECT_EQ(sums.in_use_bytes, snapshot.totals.in_use_bytes);
  EXPECT_EQ(sums.thread_cache_bytes, snapshot.totals.thread_cache_bytes);
  EXPECT_EQ(sums.central_bytes, snapshot.totals.central_bytes);
  EXPECT_EQ(sums.spans_in_use, snapshot.totals.spans_in_use);
  EXPECT_EQ(snapshot.totals.thread_cache_array_bytes, TotalsOf(heap.registry).array_bytes);
  EXPECT_GT(snapshot.totals.thread_cache_array_bytes, 0u);
}

// Figures may be read during changes. For any values, the parts do not exceed the whole.
TEST(StatsTest, PartsFitWhateverWasRead) {
  constexpr uint64_t kSeed = 271828;
  SeededRandom random(kSeed);
  for (int i = 0; i < 20000; ++i) {
    HeapStats s;
    const size_t small_span_bytes = random.Below(1000);
    s.large_bytes = random.Below(1000);
    s.page_heap_free_bytes = random.Below(1000);
    s.released_bytes = random.Below(1000);
    s.system_bytes = small_span_bytes + s.large_bytes + s.page_heap_free_bytes + s.released_bytes;
    const size_t most = random.Between(1, 800);
    s.thread_cache_bytes = random.Below(most);
    s.central_bytes = random.Below(most);
    s.span_tail_bytes = random.Below(most);
    const HeapStats read = s;
    BalanceStats(small_span_bytes, &s);
    ExpectSum(s);
    ASSERT_GE(s.in_use_bytes, s.large_bytes);
    const size_t free_bytes = read.thread_cache_bytes + read.central_bytes + read.span_tail_bytes;
    if (free_bytes > small_span_bytes) {
      ASSERT_EQ(s.in_use_bytes, s.large_bytes);
    } else {
      ASSERT_EQ(s.thread_cache_bytes + s.central_bytes + s.span_tail_bytes, free_bytes);
    }
  }
}

// The text on stderr is the same below a banner, written in pieces that fit on a small stack.
TEST(StatsTest, PrintedAsWritten) {
  Heap& heap = NewHeap();
  TestThread thread(heap.registry);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    ASSERT_NE(thread.Allocate(static_cast<SizeClass>(i)), nullptr);
  }
  for (const int level : {1, 2}) {
    testing::internal::CaptureStderr();
    PrintStatsWithBanner(heap, level);
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_EQ(printed.rfind("TCMalloc ", 0), 0u) << printed;
    const size_t rule = printed.find("\n---");
    ASSERT_NE(rule, std::string::npos) << printed;
    EXPECT_EQ(std::count(printed.begin(), printed.begin() + static_cast<ptrdiff_t>(rule), '\n'), 3);
    EXPECT_EQ(printed.substr(rule + 1), Text(heap, level));
    testing::internal::CaptureStderr();
    PrintStats(heap, level);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), Text(heap, level));
  }
}

}  // namespace
}  // namespace tcmalloc
