// SPDX-License-Identifier: BSD-3-Clause
// Compares the figures of a heap with a program that knows its own objects.
#include "stats/stats.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "process/new_heap.h"
#include "process/release.h"
#include "testing/random.h"
#include "testing/run_threads.h"
#include "thread_cache/cache_fixture.h"
#include "thread_cache/registry.h"

namespace tcmalloc {
namespace {

template <typename Write>
std::string Written(Write write) {
  char buffer[4096];
  TextWriter out(buffer, sizeof(buffer));
  write(&out);
  EXPECT_FALSE(out.truncated());
  return buffer;
}

TEST(ProcessFactsTest, OfThisProcess) {
  ProcessFacts facts;
  errno = 5;
  const Settings settings;
  CollectProcessFacts(settings, &facts);
  EXPECT_EQ(errno, 5);
  EXPECT_EQ(facts.pid, static_cast<uint64_t>(getpid()));
  EXPECT_GT(facts.seconds, 0);
  EXPECT_GT(facts.resident_bytes, facts.anonymous_bytes);
  EXPECT_GT(facts.anonymous_bytes, 0u);
  char path[4096] = "";
  ASSERT_GT(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
  const std::string expected = std::string(path).substr(0, ProcessFacts::kMaxName - 1);
  EXPECT_EQ(facts.program, expected);
  EXPECT_EQ(facts.settings, settings.given);
  EXPECT_EQ(facts.library, expected) << "here the library is a part of the program";
}

// File names may contain any bytes.
TEST(ProcessFactsTest, JsonIsAscii) {
  ProcessFacts facts;
  facts.settings = "";
  strcpy(facts.program, "/a\"b\\c\n\x7f\xc3\xa4");
  const std::string json = Written([&](TextWriter* out) { WriteFactsAsJson(facts, out); });
  EXPECT_NE(json.find(R"("program":"/a\"b\\c\u000a\u007f\u00c3\u00a4",)"), std::string::npos)
      << json;
}

}  // namespace
namespace {

void ExpectSum(const HeapStats& s) {
  EXPECT_EQ(s.system_bytes, s.in_use_bytes + s.thread_cache_bytes + s.central_bytes +
                                s.span_tail_bytes + s.page_heap_free_bytes + s.released_bytes);
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
    HeapSnapshot snapshot;
    CollectSnapshot(heap, &snapshot);
    ExpectLengthsAddUp(snapshot);
    const HeapStats& s = snapshot.totals;
    ASSERT_EQ(CollectStats(heap).in_use_bytes, s.in_use_bytes);
    ASSERT_EQ(CollectStats(heap).spans_in_use, s.spans_in_use);
    ExpectSum(s);
    ASSERT_EQ(s.in_use_bytes, small_bytes + large_bytes);
    ASSERT_EQ(s.large_bytes, large_bytes);
    ASSERT_EQ(s.large_objects, large.size());
    ASSERT_EQ(s.thread_caches, 2u);
    ASSERT_EQ(s.thread_cache_bytes, one.CachedBytes() + two.CachedBytes());
    ASSERT_EQ(s.thread_cache_array_bytes, TotalsOf(heap.registry).array_bytes);
    ASSERT_EQ(s.metadata_bytes, heap.arena.mapped_bytes());
    size_t spans = large.size();
    size_t cached_bytes = 0;
    size_t tails = 0;
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SizeClass c = static_cast<SizeClass>(i);
      const SizeClassStats& of_class = snapshot.classes[i];
      ASSERT_EQ(CollectSizeClassStats(heap, c).in_use_objects, of_class.in_use_objects);
      ASSERT_EQ(of_class.object_size, kSizeClasses.size(c));
      ASSERT_EQ(of_class.in_use_objects, objects_of_class[i]);
      spans += of_class.spans;
      cached_bytes +=
          (of_class.thread_cache_objects + of_class.central_objects) * of_class.object_size;
      tails += heap.central.free_list(c).tail_bytes();
    }
    ASSERT_EQ(s.spans_in_use, spans);
    ASSERT_EQ(s.thread_cache_bytes + s.central_bytes, cached_bytes);
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

// Figures are read while threads work. None is as wrong as one below zero would be.
TEST(StatsTest, BoundedWhileThreadsRun) {
  constexpr size_t kThreads = 4;
  Heap& heap = NewHeap();
  std::atomic<size_t> running{kThreads};
  const auto work = [&](size_t t) {
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
    --running;
  };
  RunThreads(kThreads + 1, [&](size_t t) {
    if (t < kThreads) return work(t);
    while (running > 0) {
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
  });
  const HeapStats s = CollectStats(heap);
  ExpectSum(s);
  EXPECT_EQ(s.in_use_bytes, 0u);
  EXPECT_EQ(s.spans_in_use, 0u);
}

// A sampled small object has pages of its own, and counts as an object of its class all the same.
// So do the bytes of a guarded one. The rest of these pages is a tail.
TEST(StatsTest, SampledObjectsCountWithTheirOwnBytes) {
  Heap& heap = NewHeap();
  TestThread thread(heap.registry);
  const SizeClass c = ClassForSize(100);
  const SizeClass larger = ClassForSize(20000);
  void* const ordinary = thread.Allocate(c);
  const HeapStats before = CollectStats(heap);
  std::vector<Span*> sampled;
  for (const SizeClass of : {c, c, larger}) {
    sampled.push_back(heap.page_heap.NewSampled(of));
    ASSERT_NE(sampled.back(), nullptr);
    EXPECT_EQ(sampled.back()->object_bytes(), kSizeClasses.size(of));
  }
  heap.guarded.objects.Add(1);
  heap.guarded.object_bytes.Add(30);
  heap.guarded.page_bytes.Add(4096);
  const size_t bytes = 2 * kSizeClasses.size(c) + kSizeClasses.size(larger);
  const size_t pages =
      2 * heap.page_heap.RoundUp(Length(1)).bytes() + sampled.back()->bytes() + 4096;
  HeapSnapshot snapshot;
  CollectSnapshot(heap, &snapshot);
  const HeapStats& s = snapshot.totals;
  ExpectSum(s);
  EXPECT_EQ(s.in_use_bytes, before.in_use_bytes + bytes + 30);
  EXPECT_EQ(s.sampled_bytes, bytes);
  EXPECT_EQ(s.guarded_bytes, 30u);
  EXPECT_EQ(s.sample_tail_bytes, pages - bytes - 30);
  EXPECT_EQ(s.span_tail_bytes, before.span_tail_bytes + pages - bytes - 30);
  EXPECT_EQ(s.large_bytes + s.large_objects, 0u);
  EXPECT_EQ(s.spans_in_use, before.spans_in_use + 3);
  EXPECT_EQ(snapshot.classes[Index(c)].in_use_objects, 3u);
  EXPECT_EQ(snapshot.classes[Index(larger)].in_use_objects, 1u);
  EXPECT_EQ(snapshot.classes[Index(larger)].spans, 0u);
  // One is kept for the next large object, the others are free.
  SpanHome& keeper = heap.central.shards().Current().home();
  for (Span* const span : sampled) {
    ASSERT_TRUE(heap.page_heap.DeleteLargeAt(span, span->start_address(), nullptr,
                                             span == sampled[0] ? &keeper : nullptr));
  }
  heap.guarded.object_bytes.Subtract(30);
  heap.guarded.page_bytes.Subtract(4096);
  const HeapStats after = CollectStats(heap);
  ExpectSum(after);
  EXPECT_EQ(after.in_use_bytes, before.in_use_bytes);
  EXPECT_EQ(after.span_tail_bytes, before.span_tail_bytes);
  EXPECT_EQ(after.spans_in_use, before.spans_in_use);
  EXPECT_EQ(heap.page_heap.sampled().all(), 0u);
  thread.Free(c, ordinary);
  thread.Exit();
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
    s.sampled_bytes = random.Below(1000);
    s.guarded_bytes = random.Below(1000);
    s.sample_tail_bytes = random.Below(1000);
    const size_t apart = s.large_bytes + s.sampled_bytes + s.guarded_bytes;
    s.system_bytes =
        small_span_bytes + apart + s.sample_tail_bytes + s.page_heap_free_bytes + s.released_bytes;
    const size_t most = random.Between(1, 800);
    s.thread_cache_bytes = random.Below(most);
    s.central_bytes = random.Below(most);
    s.span_tail_bytes = random.Below(most);
    const HeapStats read = s;
    BalanceStats(small_span_bytes, &s);
    ExpectSum(s);
    ASSERT_GE(s.in_use_bytes, apart);
    const size_t free_bytes = read.thread_cache_bytes + read.central_bytes + read.span_tail_bytes;
    if (free_bytes > small_span_bytes) {
      ASSERT_EQ(s.in_use_bytes, apart);
    } else {
      ASSERT_EQ(s.thread_cache_bytes + s.central_bytes + s.span_tail_bytes,
                free_bytes + s.sample_tail_bytes);
    }
  }
}

}  // namespace
}  // namespace tcmalloc
