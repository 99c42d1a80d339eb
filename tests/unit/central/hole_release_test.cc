// SPDX-License-Identifier: BSD-3-Clause
#include "central/hole_release.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "central/hole_claims.h"
#include "testing/heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

struct HoleHeap : TestHeap {
  explicit HoleHeap(size_t hardware_page_size = 4096)
      : TestHeap(hardware_page_size), holes(vm, page_heap, page_map, arena, central) {
    page_heap.governor()->SetReleaseRate(0);
  }

  // The objects of `spans` spans, in the order of addresses.
  std::vector<void*> AllocateSpans(SizeClass c, size_t spans) {
    std::vector<void*> objects = Take(c, spans * central.free_list(c).objects_per_span());
    std::sort(objects.begin(), objects.end());
    return objects;
  }
  void Free(SizeClass c, void* object) {
    central.free_list(c).Insert(central.shards().Ensure(0), &object, 1);
  }

  // Calls ReleaseAll and returns the ranges that it releases, as (start, bytes).
  std::vector<std::pair<uintptr_t, size_t>> Release() {
    vm.RecordCalls();
    vm.TakeCalls();
    holes.ReleaseAll();
    std::vector<std::pair<uintptr_t, size_t>> ranges;
    for (const FakeVirtualMemory::Call& call : vm.TakeCalls()) {
      EXPECT_EQ(call.kind, FakeVirtualMemory::Kind::kRelease);
      if (call.ok) ranges.emplace_back(call.start, call.bytes);
    }
    return ranges;
  }

  HoleRelease holes;
};

uintptr_t At(const void* p) { return reinterpret_cast<uintptr_t>(p); }

void FillWithByte(void* object, size_t size, size_t tag) {
  memset(object, static_cast<int>(tag), size);
}
bool IsFilled(const void* object, size_t size, size_t tag) {
  const unsigned char* const bytes = static_cast<const unsigned char*>(object);
  return std::all_of(bytes, bytes + size,
                     [tag](unsigned char byte) { return byte == (tag & 0xff); });
}

// The class of a page was read while the page was in a span of small objects. Now the page is in a
// pool.
TEST(HoleReleaseTest, SkipsASpanInAPool) {
  HoleHeap heap;
  SpanHome& home = heap.central.shards().Ensure(0).home();
  Span* const span = heap.page_heap.New(Length(40), SpanState::kLarge, Length(1), &home);
  ASSERT_NE(span, nullptr);
  const PageId page = span->first_page;
  ASSERT_TRUE(heap.page_heap.DeleteLargeAt(span, page.start_address(), nullptr, &home));
  ASSERT_GT(home.pool.bytes(), 0u);
  heap.page_map.SetClassOfAll(page, Length(1), static_cast<SizeClass>(8));
  EXPECT_EQ(heap.holes.ReleaseAll(), 0u);
  heap.page_map.SetClassOfAll(page, Length(1), SizeClass::kNone);
}

TEST(HoleReleaseTest, WhatChangesGoesAgain) {
  HoleHeap heap;
  const SizeClass c = ClassForSize(4096);
  const std::vector<void*> objects = heap.AllocateSpans(c, 2);
  const size_t n = objects.size();
  for (size_t i = 2; i < n; i += 2) heap.Free(c, objects[i]);
  EXPECT_EQ(heap.holes.ReleaseAll(), (n / 2 - 1) * 4096);
  heap.Free(c, objects[3]);
  // One call releases three pages, two of them for the second time. The other free pages of that
  // span are also released again.
  EXPECT_EQ(heap.holes.ReleaseAll(), 4096u);
  EXPECT_EQ(heap.holes.hole_bytes(), n / 2 * 4096);
  EXPECT_EQ(heap.holes.ReleaseAll(), 0u);
  // The object comes from one of the spans, whose released pages no longer count. Both spans have
  // the same number of them.
  void* const again = heap.Take(c, 1)[0];
  EXPECT_EQ(heap.holes.hole_bytes(), n / 4 * 4096);
  FillWithByte(again, 4096, 7);
  heap.CheckInvariants();
  heap.Free(c, again);
  EXPECT_EQ(heap.holes.hole_bytes(), n / 4 * 4096);
  EXPECT_EQ(heap.holes.ReleaseAll(), n / 4 * 4096);
  EXPECT_EQ(heap.holes.hole_bytes(), n / 2 * 4096);
  heap.CheckInvariants();
  // A span that becomes empty no longer counts.
  for (size_t i = 0; i < n; ++i) {
    if (i < 2 || (i % 2 == 1 && i != 3)) heap.Free(c, objects[i]);
  }
  EXPECT_EQ(heap.holes.hole_bytes(), 0u);
  EXPECT_EQ(heap.central.free_list(c).num_spans(), 0u);
  heap.CheckInvariants();
}

// Releases exactly the hardware pages without a byte of an object in use, for all classes mixed.
TEST(HoleReleaseTest, AllClassesAgainstWhatTheProgramKnows) {
  constexpr uint64_t kReleaseSeed = 4711;
  SeededRandom random(kReleaseSeed);
  for (const size_t page_size : {size_t{4096}, size_t{16384}, size_t{65536}}) {
    HoleHeap heap(page_size);
    struct Live {
      SizeClass c;
      size_t tag;
    };
    std::map<void*, Live> live;
    for (int step = 0; step < 4000; ++step) {
      const SizeClass c = static_cast<SizeClass>(random.Between(1, kNumSizeClasses - 1));
      const size_t n = random.Between(1, std::max<size_t>(1, 20000 / kSizeClasses.size(c)));
      for (void* const object : heap.Take(c, n)) {
        live[object] = {c, 0};
        if (live.size() % 7 == 0) FillWithByte(object, kSizeClasses.size(c), 0xee);
      }
    }
    const uint64_t one_of = page_size == 65536 ? 300 : 40;
    for (auto it = live.begin(); it != live.end();) {
      const auto [object, was] = *it;
      if (random.OneIn(one_of)) {
        it->second.tag = random.Between(1, 255);
        FillWithByte(object, kSizeClasses.size(was.c), it->second.tag);
        ++it;
      } else {
        it = live.erase(it);
        heap.Free(was.c, object);
      }
    }
    heap.page_heap.DrainSpanCaches();
    // Expected are the pages of the remaining spans without an object in use. The rest after a
    // span's last object counts as part of that object.
    std::set<uintptr_t> expected;
    for (const auto& [object, what] : live) {
      const Span* const span = heap.SpanOf(object);
      for (size_t at = 0; at < span->bytes(); at += page_size) {
        expected.insert(span->first_page.start_uintptr() + at);
      }
    }
    for (const auto& [object, what] : live) {
      const Span* const span = heap.SpanOf(object);
      const size_t size = kSizeClasses.size(what.c);
      uintptr_t end = At(object) + size;
      const uintptr_t span_end = span->first_page.start_uintptr() + span->bytes();
      if (span_end - end < size) end = span_end;
      for (uintptr_t page = At(object) / page_size * page_size; page < end; page += page_size) {
        expected.erase(page);
      }
    }
    // Few spans have more than one hardware page of the largest size.
    ASSERT_GT(expected.size(), page_size == 65536 ? 5u : 100u);
    std::set<uintptr_t> released;
    uintptr_t previous_end = 0;
    size_t holes_joined = 0;
    for (const auto& [start, bytes] : heap.Release()) {
      holes_joined += start == previous_end;
      previous_end = start + bytes;
      for (size_t at = 0; at < bytes; at += page_size) {
        ASSERT_TRUE(released.insert(start + at).second) << "twice";
      }
    }
    ASSERT_EQ(released, expected) << "hardware pages of " << page_size;
    // Adjacent pages are in one call, except where the claims were full.
    ASSERT_LE(holes_joined, expected.size() * page_size / kClaimedAtOnceBytes +
                                expected.size() / HoleClaims::kMaxHoles + 1);
    ASSERT_EQ(heap.holes.hole_bytes(), expected.size() * page_size);
    for (const auto& [object, what] : live) {
      ASSERT_TRUE(IsFilled(object, kSizeClasses.size(what.c), what.tag));
    }
    heap.CheckInvariants();
    ASSERT_TRUE(heap.Release().empty());
    // All free objects can be allocated, and no others.
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SizeClass c = static_cast<SizeClass>(i);
      const size_t free = heap.central.free_list(c).free_objects();
      if (free == 0) continue;
      const size_t spans = heap.central.free_list(c).num_spans();
      for (void* const object : heap.Take(c, free)) ASSERT_EQ(live.count(object), 0u);
      ASSERT_EQ(heap.central.free_list(c).num_spans(), spans);
    }
    ASSERT_EQ(heap.holes.hole_bytes(), 0u);
    heap.CheckInvariants();
  }
}

// While the memory of the free objects is being released, another thread allocates from the same
// span until it needs another span, and frees the objects in use. The span then returns to the page
// heap as soon as the claimed objects return.
TEST(HoleReleaseTest, OtherThreadsUseTheSpanMeanwhile) {
  HoleHeap heap;
  const SizeClass c = ClassForSize(1024);
  const std::vector<void*> objects = heap.AllocateSpans(c, 1);
  const size_t n = objects.size();
  CentralFreeList& list = heap.central.free_list(c);
  // On page 0 one object is in use and three are free. On the other pages all are free.
  for (size_t i = 1; i < n; ++i) heap.Free(c, objects[i]);
  std::vector<void*> meanwhile;
  heap.vm.OnNextRelease([&] {
    std::thread([&] {
      ASSERT_EQ(list.free_objects(), 3u);
      // The claimed objects are free, although their bits say that they are in use.
      std::set<void*> claimed;
      heap.holes.ForEachClaim([&](const Span* span, size_t first, size_t count) {
        EXPECT_EQ(span, heap.SpanOf(objects[0]));
        claimed.insert(&objects[first], &objects[first] + count);
      });
      ASSERT_EQ(claimed, std::set<void*>(&objects[4], &objects[0] + n));
      for (void* const object : claimed) EXPECT_TRUE(list.IsOut(object));
      ASSERT_FALSE(list.IsOut(objects[1]));
      void* got[8];
      for (size_t taken = 0; taken < 3;) {
        const size_t more = list.Remove(list.shards().Ensure(0), got, 3 - taken);
        ASSERT_GT(more, 0u);
        meanwhile.insert(meanwhile.end(), got, got + more);
        taken += more;
      }
      const std::set<void*> three(meanwhile.begin(), meanwhile.end());
      ASSERT_EQ(three, (std::set<void*>{objects[1], objects[2], objects[3]}));
      for (void* const object : meanwhile) FillWithByte(object, 1024, 9);
      // The next object comes from another span.
      ASSERT_EQ(list.Remove(list.shards().Ensure(0), got, 1), 1u);
      ASSERT_NE(heap.SpanOf(got[0]), heap.SpanOf(objects[0]));
      list.Insert(list.shards().Ensure(0), got, 1);
      ASSERT_EQ(list.num_spans(), 1u);
      list.Insert(list.shards().Ensure(0), meanwhile.data(), 2);
      void* const last[] = {objects[0], meanwhile[2]};
      list.Insert(list.shards().Ensure(0), last, 2);
      ASSERT_EQ(list.num_spans(), 1u) << "the claimed ones keep the span";
    }).join();
  });
  EXPECT_EQ(heap.holes.ReleaseAll(), (n - 4) * 1024);
  heap.holes.ForEachClaim([](const Span*, size_t, size_t) { FAIL(); });
  ASSERT_EQ(meanwhile.size(), 3u);
  EXPECT_EQ(list.num_spans(), 0u);
  EXPECT_EQ(list.free_objects(), 0u);
  EXPECT_EQ(heap.holes.hole_bytes(), 0u);
  heap.page_heap.DrainSpanCaches();
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
  heap.CheckInvariants();
}

TEST(HoleReleaseDeathTest, ASecondFreeMeanwhileIsFound) {
  HoleHeap heap;
  const SizeClass c = ClassForSize(1024);
  const std::vector<void*> objects = heap.AllocateSpans(c, 1);
  for (size_t i = 1; i < objects.size(); ++i) heap.Free(c, objects[i]);
  heap.vm.OnNextRelease([&] { heap.Free(c, objects[9]); });
  EXPECT_DEATH(heap.holes.ReleaseAll(), PointerText(objects[9]));
}

// Memory that the OS refuses to release stays, does not count as released, and does not keep
// adjacent pages from being released.
TEST(HoleReleaseTest, WhatIsLockedInMemoryStays) {
  HoleHeap heap;
  const SizeClass c = ClassForSize(4096);
  const std::vector<void*> objects = heap.AllocateSpans(c, 3);
  const size_t n = objects.size();
  const size_t per_span = n / 3;
  for (void* const object : objects) FillWithByte(object, 4096, 5);
  // One run of free pages reaches from the first span to the third.
  for (size_t i = 0; i < n; ++i) {
    if (i != 0 && i != per_span && i != n - 1) heap.Free(c, objects[i]);
  }
  const size_t second = 2 * per_span - 1 - per_span;
  heap.vm.LockInMemory(objects[2 * per_span + 1], 4096);
  const size_t third = per_span - 1;
  EXPECT_EQ(heap.holes.ReleaseAll(), (per_span - 1 + second) * 4096);
  EXPECT_TRUE(IsFilled(objects[1], 4096, 0));
  EXPECT_TRUE(IsFilled(objects[2 * per_span - 1], 4096, 0));
  EXPECT_TRUE(IsFilled(objects[2 * per_span], 4096, 5));
  EXPECT_EQ(heap.holes.hole_bytes(), (per_span - 1 + second) * 4096);
  heap.CheckInvariants();
  heap.vm.LockInMemory(nullptr, 0);
  EXPECT_EQ(heap.holes.ReleaseAll(), third * 4096);
  EXPECT_EQ(heap.holes.ReleaseAll(), 0u);
  heap.CheckInvariants();
}

// The page map's answer may be outdated: the span belongs to another class or to none, or has other
// pages.
TEST(HoleReleaseTest, SpansThatHaveChangedAreSkipped) {
  HoleHeap heap;
  const SizeClass before = ClassForSize(2048);
  const SizeClass after = ClassForSize(4096);
  ASSERT_EQ(heap.central.free_list(before).span_bytes() * 2,
            heap.central.free_list(after).span_bytes());
  std::vector<void*> objects = heap.AllocateSpans(before, 2);
  Span* const span = heap.SpanOf(objects[0]);
  ASSERT_EQ(span->first_page, PageId::Containing(objects[0]));
  const SpanOwner owner = SpanOwner::Of(span);
  EXPECT_EQ(owner, SpanOwner(before, 0, true));
  HoleClaims claims;
  const auto claim = [&](PageId page) {
    EXPECT_TRUE(heap.central.free_list(before).ClaimHoles(span, owner, 4096, &claims, &page));
    return page;
  };
  for (size_t i = 1; i < objects.size() / 2; ++i) heap.Free(before, objects[i]);
  const PageId first = span->first_page;
  const PageId end = first + span->num_pages;
  // The page does not belong to this span.
  EXPECT_EQ(claim(end), end + Length(1));
  EXPECT_TRUE(claims.empty());
  // The page belongs to no class, then to another class, with free objects.
  heap.Free(before, objects[0]);
  for (size_t i = objects.size() / 2; i < objects.size(); ++i) heap.Free(before, objects[i]);
  EXPECT_EQ(SpanOwner::Of(span), SpanOwner(SizeClass::kNone, 0));
  EXPECT_EQ(claim(first), first + Length(1));
  heap.page_heap.DrainSpanCaches();
  objects = heap.AllocateSpans(after, 1);
  ASSERT_EQ(heap.SpanOf(first.start_address()), span) << "its record and its pages again";
  EXPECT_EQ(SpanOwner::Of(span), SpanOwner(after, 0, true));
  for (size_t i = 1; i < objects.size(); ++i) heap.Free(after, objects[i]);
  EXPECT_EQ(claim(first), first + Length(1));
  EXPECT_TRUE(claims.empty());
  EXPECT_EQ(heap.central.free_list(after).free_objects(), objects.size() - 1);
  heap.CheckInvariants();
}

TEST(HoleReleaseTest, WithoutMemoryForTheRecordNothingIsDone) {
  HoleHeap heap;
  const SizeClass c = ClassForSize(4096);
  const std::vector<void*> objects = heap.AllocateSpans(c, 1);
  for (size_t i = 1; i < objects.size(); ++i) heap.Free(c, objects[i]);
  while (heap.arena.AllocateWithoutGrowing(sizeof(HoleClaims)) != nullptr) {
  }
  heap.vm.FailMap(1, FakeVirtualMemory::kForever);
  EXPECT_EQ(heap.holes.ReleaseAll(), 0u);
  heap.vm.StopFailing();
  EXPECT_EQ(heap.holes.ReleaseAll(), (objects.size() - 1) * 4096);
}

TEST(HoleReleaseTest, AForkedChildLosesNothing) {
  HoleHeap heap;
  const SizeClass c = ClassForSize(512);
  const SizeClass other = ClassForSize(4096);
  CentralFreeList& list = heap.central.free_list(c);
  std::vector<void*> objects = heap.AllocateSpans(c, 4);
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 60 != 0) heap.Free(c, objects[i]);
  }
  objects = heap.AllocateSpans(other, 2);
  for (size_t i = 1; i < objects.size(); ++i) heap.Free(other, objects[i]);
  const size_t free = list.free_objects();
  const size_t others_free = heap.central.free_list(other).free_objects();
  int status = -1;
  // Another thread forks.
  const auto fork_inside = [&] {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (list.free_objects() == free) _exit(2);
      heap.holes.ReturnOthersInChild();
      heap.CheckInvariants();
      if (list.free_objects() != free) _exit(3);
      if (heap.central.free_list(other).free_objects() != others_free) _exit(4);
      if (heap.holes.hole_bytes() != 0) _exit(5);
      if (heap.holes.ReleaseAll() == 0) _exit(6);
      heap.CheckInvariants();
      _exit(testing::Test::HasFailure() ? 7 : 0);
    }
    ASSERT_EQ(waitpid(child, &status, 0), child);
  };
  heap.vm.OnNextRelease([&] { std::thread(fork_inside).join(); });
  EXPECT_GT(heap.holes.ReleaseAll(), 0u);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(list.free_objects(), free);
  heap.CheckInvariants();
}

TEST(HoleReleaseTest, BesideThreadsThatAllocate) {
  constexpr size_t kThreads = 4;
  constexpr size_t kReleasers = 2;
  constexpr int kSteps = 4000;
  HoleHeap heap;
  std::atomic<size_t> running{kThreads};
  // The number of releasing threads that have released something. No thread stops before all of
  // them have released something.
  std::atomic<size_t> successful{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&heap, &running, &successful, t] {
      SeededRandom random(t);
      struct Held {
        SizeClass c;
        void* object;
        size_t tag;
      };
      std::vector<Held> held;
      for (int step = 0; step < kSteps || successful.load() < kReleasers; ++step) {
        // The threads share three CPUs, and each one now and then runs on others.
        test_processor =
            static_cast<int>(random.OneIn(8) ? random.Below(2 * TestHeap::kShards) : t % 3);
        const SizeClass c = ClassForSize(size_t{16} << random.Below(9));
        const size_t size = kSizeClasses.size(c);
        if (held.size() < 400 || random.OneIn(2)) {
          void* got[16];
          const size_t n = heap.central.Remove(c, got, random.Between(1, 16));
          ASSERT_GT(n, 0u);
          for (size_t i = 0; i < n; ++i) {
            held.push_back({c, got[i], random.Between(1, 255)});
            FillWithByte(got[i], size, held.back().tag);
          }
        }
        if (held.size() <= 600) continue;
        const auto first =
            std::partition(held.begin(), held.end(), [c](const Held& h) { return h.c != c; });
        std::vector<void*> objects;
        for (auto it = first; it != held.end(); ++it) {
          ASSERT_TRUE(IsFilled(it->object, size, it->tag));
          objects.push_back(it->object);
        }
        held.erase(first, held.end());
        heap.central.Insert(c, objects.data(), objects.size());
      }
      for (const Held& h : held) {
        ASSERT_TRUE(IsFilled(h.object, kSizeClasses.size(h.c), h.tag));
        heap.central.Insert(h.c, &h.object, 1);
      }
      running.fetch_sub(1);
    });
  }
  for (size_t t = 0; t < kReleasers; ++t) {
    threads.emplace_back([&heap, &running, &successful, t] {
      size_t bytes = 0;
      while (running.load() > 0) {
        const bool first = bytes == 0;
        bytes += heap.holes.ReleaseAll();
        if (t == 0) heap.page_heap.DrainSpanCaches();
        if (first && bytes > 0) successful.fetch_add(1);
        // The two values must be read in this order, because the heap only grows.
        const size_t hole_bytes = heap.holes.hole_bytes();
        EXPECT_LE(hole_bytes, heap.page_heap.GetStats().system_bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  heap.CheckInvariants();
  EXPECT_EQ(heap.holes.hole_bytes(), 0u);
  for (size_t i = 1; i < kNumSizeClasses; ++i) {
    EXPECT_EQ(heap.central.free_list(static_cast<SizeClass>(i)).num_spans(), 0u);
  }
  heap.page_heap.DrainSpanCaches();
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
