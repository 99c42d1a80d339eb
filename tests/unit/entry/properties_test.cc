// SPDX-License-Identifier: BSD-3-Clause
// Tests the properties of a heap while no other code uses it and the test knows all objects.
#include "entry/properties.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/tuning.h"
#include "cache/cache_fixture.h"
#include "heap/limits.h"
#include "heap/new_heap.h"
#include "heap/trim.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;

// Reads all properties from one snapshot. Reading one property, which reads only a part of the
// snapshot, must give the same value.
class Figures {
 public:
  explicit Figures(Heap& heap) {
    const HeapStats stats = CollectStats(heap);
    for (const Property& property : Properties()) {
      values_[property.name] = property.get(stats);
      EXPECT_EQ(GetProperty(heap, property.name), values_[property.name]) << property.name;
    }
  }
  size_t operator[](std::string_view name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    ADD_FAILURE() << name;
    return 0;
  }

 private:
  std::map<std::string_view, size_t> values_;
};

void ExpectConsistent(const Figures& f) {
  EXPECT_EQ(f["generic.heap_size"],
            f["generic.current_allocated_bytes"] + f["tcmalloc.central_cache_free_bytes"] +
                f["tcmalloc.transfer_cache_free_bytes"] + f["tcmalloc.thread_cache_free_bytes"] +
                f["tcmalloc.pageheap_free_bytes"] + f["tcmalloc.pageheap_unmapped_bytes"]);
  EXPECT_EQ(f["tcmalloc.slack_bytes"],
            f["tcmalloc.pageheap_free_bytes"] + f["tcmalloc.pageheap_unmapped_bytes"]);
  EXPECT_EQ(f["tcmalloc.pageheap_committed_bytes"],
            f["generic.heap_size"] - f["tcmalloc.pageheap_unmapped_bytes"]);
  EXPECT_EQ(
      f["tcmalloc.pageheap_committed_bytes"],
      f["tcmalloc.pageheap_total_commit_bytes"] - f["tcmalloc.pageheap_total_decommit_bytes"]);
  EXPECT_EQ(f["generic.total_physical_bytes"],
            f["tcmalloc.pageheap_committed_bytes"] + f["tcmalloc.metadata_bytes"]);
  EXPECT_EQ(f["generic.virtual_memory_used"],
            f["generic.heap_size"] + f["tcmalloc.metadata_bytes"]);
  EXPECT_EQ(f["tcmalloc.external_fragmentation_bytes"],
            f["generic.physical_memory_used"] - f["generic.bytes_in_use_by_app"]);
  // Each pair has two names of the same figure.
  const std::pair<const char*, const char*> kSame[] = {
      {"generic.bytes_in_use_by_app", "generic.current_allocated_bytes"},
      {"generic.physical_memory_used", "generic.total_physical_bytes"},
      {"tcmalloc.central_cache_free", "tcmalloc.central_cache_free_bytes"},
      {"tcmalloc.transfer_cache_free", "tcmalloc.transfer_cache_free_bytes"},
      {"tcmalloc.thread_cache_free", "tcmalloc.thread_cache_free_bytes"},
      {"tcmalloc.current_total_thread_cache_bytes", "tcmalloc.thread_cache_free_bytes"},
      {"tcmalloc.thread_cache_count", "tcmalloc.impl.thread_cache_count"},
      {"tcmalloc.page_heap_free", "tcmalloc.pageheap_free_bytes"},
      {"tcmalloc.page_heap_unmapped", "tcmalloc.pageheap_unmapped_bytes"},
      {"tcmalloc.num_released_total_bytes", "tcmalloc.pageheap_total_decommit_bytes"},
      {"tcmalloc.pageheap_scavenge_count", "tcmalloc.pageheap_decommit_count"},
  };
  for (const auto& [a, b] : kSame) EXPECT_EQ(f[a], f[b]) << a;
}

TEST(PropertiesTest, EveryNameOnceAndAnswered) {
  Heap& heap = NewHeap();
  std::set<std::string_view> names;
  for (const Property& property : Properties()) {
    EXPECT_TRUE(names.insert(property.name).second) << property.name;
    EXPECT_TRUE(GetProperty(heap, property.name).has_value()) << property.name;
    if (property.set != nullptr) continue;
    EXPECT_FALSE(SetProperty(heap, property.name, 1)) << property.name;
  }
  EXPECT_EQ(names.size(), 52u);
  EXPECT_EQ(GetProperty(heap, "generic.heap_siz"), std::nullopt);
  EXPECT_EQ(GetProperty(heap, ""), std::nullopt);
  EXPECT_FALSE(SetProperty(heap, "no.such_property", 1));
}

TEST(PropertiesTest, AnEmptyHeap) {
  Heap& heap = NewHeap();
  const Figures f(heap);
  ExpectConsistent(f);
  for (const char* name : {"generic.heap_size", "generic.current_allocated_bytes",
                           "tcmalloc.metadata_bytes", "tcmalloc.pageheap_commit_count",
                           "tcmalloc.pageheap_reserve_count", "tcmalloc.impl.thread_cache_count",
                           "tcmalloc.aggressive_memory_decommit", "tcmalloc.heap_limit_mb"}) {
    EXPECT_EQ(f[name], 0u) << name;
  }
  EXPECT_EQ(f["tcmalloc.hard_usage_limit_bytes"], SIZE_MAX);
  EXPECT_EQ(f["tcmalloc.desired_usage_limit_bytes"], SIZE_MAX);
  EXPECT_EQ(f["tcmalloc.max_total_thread_cache_bytes"], ShareRetention({}).thread_caches);
}

TEST(PropertiesTest, ExactInAQuietProgram) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(0);
  TestThread thread(heap.registry);
  const SizeClass c = ClassForSize(1000);
  const size_t size = kSizeClasses.size(c);
  std::vector<void*> objects;
  for (int i = 0; i < 5000; ++i) objects.push_back(thread.Allocate(c));
  Span* const large = heap.page_heap.New(Length(1000), SpanState::kLarge);
  const Figures held(heap);
  ExpectConsistent(held);
  EXPECT_EQ(held["generic.current_allocated_bytes"], 5000 * size + Length(1000).bytes());
  EXPECT_EQ(held["tcmalloc.impl.thread_cache_count"], 1u);
  EXPECT_GE(held["tcmalloc.pageheap_reserve_count"], 1u);
  EXPECT_EQ(held["tcmalloc.pageheap_total_reserve_bytes"], held["generic.heap_size"]);
  EXPECT_EQ(held["tcmalloc.pageheap_total_decommit_bytes"], 0u);

  heap.page_heap.Delete(large);
  const Figures freed(heap);
  ExpectConsistent(freed);
  EXPECT_EQ(freed["tcmalloc.pageheap_free_bytes"],
            held["tcmalloc.pageheap_free_bytes"] + Length(1000).bytes());
  EXPECT_EQ(freed["tcmalloc.pageheap_commit_count"], held["tcmalloc.pageheap_commit_count"]);

  const size_t released = heap.page_heap.ReleaseAtLeast(Length(100000)).bytes();
  const Figures after(heap);
  ExpectConsistent(after);
  EXPECT_EQ(after["tcmalloc.pageheap_free_bytes"], 0u);
  EXPECT_EQ(after["tcmalloc.pageheap_total_decommit_bytes"], released);
  EXPECT_EQ(after["tcmalloc.pageheap_unmapped_bytes"],
            freed["tcmalloc.pageheap_unmapped_bytes"] + released);
  EXPECT_GT(after["tcmalloc.pageheap_decommit_count"], 0u);
  EXPECT_EQ(after["tcmalloc.pageheap_total_commit_bytes"],
            freed["tcmalloc.pageheap_total_commit_bytes"]);

  // Memory that is used again is committed again.
  Span* const again = heap.page_heap.New(Length(500), SpanState::kLarge);
  const Figures more(heap);
  ExpectConsistent(more);
  EXPECT_EQ(more["tcmalloc.pageheap_commit_count"], after["tcmalloc.pageheap_commit_count"] + 1);
  EXPECT_GE(more["tcmalloc.pageheap_total_commit_bytes"],
            after["tcmalloc.pageheap_total_commit_bytes"] + Length(500).bytes());

  heap.page_heap.Delete(again);
  for (void* const object : objects) thread.Free(c, object);
  const Figures empty(heap);
  ExpectConsistent(empty);
  EXPECT_EQ(empty["generic.current_allocated_bytes"], 0u);
  EXPECT_GT(empty["tcmalloc.thread_cache_free_bytes"], 0u);
  thread.Exit();
  EXPECT_EQ(Figures(heap)["tcmalloc.impl.thread_cache_count"], 0u);
}

// The sums hold after any work, also with free pages inside spans in use.
TEST(PropertiesTest, ConsistentAfterRandomWork) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleaseRate(0);
  SeededRandom random(417);
  TestThread thread(heap.registry);
  std::map<void*, SizeClass> objects;
  size_t bytes = 0;
  size_t released = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random.OneIn(2) || objects.empty()) {
      const SizeClass c = ClassForSize(random.Between(1, random.OneIn(10) ? kMaxSmallSize : 3000));
      void* const object = thread.Allocate(c);
      ASSERT_NE(object, nullptr);
      memset(object, 1, kSizeClasses.size(c));
      objects[object] = c;
      bytes += kSizeClasses.size(c);
    } else {
      auto it = objects.lower_bound(reinterpret_cast<void*>(
          reinterpret_cast<uintptr_t>(objects.begin()->first) + random.Below(size_t{64} << 20)));
      if (it == objects.end()) it = objects.begin();
      bytes -= kSizeClasses.size(it->second);
      thread.Free(it->second, it->first);
      objects.erase(it);
    }
    if (step % 2000 == 1999) {
      if (random.OneIn(2)) {
        thread.cache()->Flush();
        released += Trim(heap, 0);
      }
      const Figures f(heap);
      ExpectConsistent(f);
      ASSERT_EQ(f["generic.current_allocated_bytes"], bytes);
      ASSERT_EQ(f["tcmalloc.pageheap_total_decommit_bytes"], released);
    }
  }
  EXPECT_GT(Figures(heap)["tcmalloc.pageheap_decommit_count"], 0u);
  for (const auto& [object, c] : objects) thread.Free(c, object);
  thread.Exit();
}

TEST(PropertiesTest, SettingsAreSet) {
  Heap& heap = NewHeap();
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.max_total_thread_cache_bytes", 5 * kMebibyte));
  EXPECT_EQ(heap.registry.limits().total, 5 * kMebibyte);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.min_per_thread_cache_bytes", 200000));
  EXPECT_EQ(heap.registry.limits().min_per_cache, 200000u);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.heap_limit_mb", 300));
  EXPECT_EQ(heap.page_heap.governor()->limits().hard_bytes, 300 * kMebibyte);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.aggressive_memory_decommit", 7));
  EXPECT_EQ(heap.page_heap.hints().releasing.value(), Releasing::kEager);
  const Figures f(heap);
  EXPECT_EQ(f["tcmalloc.max_total_thread_cache_bytes"], 5 * kMebibyte);
  EXPECT_EQ(f["tcmalloc.min_per_thread_cache_bytes"], 200000u);
  EXPECT_EQ(f["tcmalloc.heap_limit_mb"], 300u);
  EXPECT_EQ(f["tcmalloc.hard_usage_limit_bytes"], 300 * kMebibyte);
  EXPECT_EQ(f["tcmalloc.aggressive_memory_decommit"], 1u);

  EXPECT_TRUE(SetProperty(heap, "tcmalloc.heap_limit_mb", 0));
  EXPECT_EQ(heap.page_heap.governor()->limits().hard_bytes, kNoLimit);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.heap_limit_mb", SIZE_MAX));
  EXPECT_EQ(heap.page_heap.governor()->limits().hard_bytes, kNoLimit);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.aggressive_memory_decommit", 0));
  EXPECT_EQ(heap.page_heap.hints().releasing.value(), Releasing::kByPolicy);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.sample_parameter", 0));
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.sample_parameter", 524288));
  EXPECT_EQ(GetProperty(heap, "tcmalloc.sample_parameter"), 524288u);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.sample_parameter", 0));
}

TEST(PropertiesTest, LimitsAreReportedWithTheirHits) {
  Heap& heap = NewHeap();
  SetMemoryLimit(heap, LimitKind::kHard, 8 * kMebibyte);
  SetMemoryLimit(heap, LimitKind::kSoft, 4 * kMebibyte);
  EXPECT_EQ(heap.page_heap.New(Length::ForBytes(50 * kMebibyte), SpanState::kLarge), nullptr);
  Span* const span = heap.page_heap.New(Length::ForBytes(5 * kMebibyte), SpanState::kLarge);
  ASSERT_NE(span, nullptr);
  const Figures f(heap);
  EXPECT_EQ(f["tcmalloc.desired_usage_limit_bytes"], 4 * kMebibyte);
  EXPECT_EQ(f["tcmalloc.hard_limit_hits"], 1u);
  EXPECT_GT(f["tcmalloc.soft_limit_hits"], 0u);
  heap.page_heap.Delete(span);
}

TEST(PropertiesTest, WhatMustNotBeReleasedIsNotReleasedEagerly) {
  Heap& heap = NewHeap();
  heap.page_heap.governor()->SetReleasing(Releasing::kNever);
  EXPECT_FALSE(SetProperty(heap, "tcmalloc.aggressive_memory_decommit", 1));
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.aggressive_memory_decommit", 0));
  EXPECT_EQ(heap.page_heap.hints().releasing.value(), Releasing::kNever);
}

TEST(PropertiesTest, ASmallerTotalReachesTheCaches) {
  Heap& heap = NewHeap();
  TestThread one(heap.registry);
  TestThread two(heap.registry);
  one.RaiseLimitTo(10 * kMebibyte);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.max_total_thread_cache_bytes", kMebibyte));
  EXPECT_EQ(one.cache()->max_bytes(), kMebibyte / 2);
  EXPECT_EQ(two.cache()->max_bytes(), kTuning.cache_budget.initial_bytes);
  EXPECT_TRUE(SetProperty(heap, "tcmalloc.max_total_thread_cache_bytes", SIZE_MAX));
  one.RaiseLimitTo(2 * kMebibyte);
  heap.registry.CheckInvariants();
  one.Exit();
  two.Exit();
}

// docs/properties.md has a row for each property, and no other rows.
TEST(PropertiesTest, TheDocumentHasThemAll) {
  std::ifstream file(TCMALLOC_PROPERTIES_DOCUMENTATION);
  ASSERT_TRUE(file.good());
  std::map<std::string, bool> documented;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    const size_t end = line.find('`', 3);
    documented[line.substr(3, end - 3)] = line.compare(end, 9, "` | yes |") == 0;
  }
  for (const Property& property : Properties()) {
    const auto row = documented.find(std::string(property.name));
    ASSERT_NE(row, documented.end()) << property.name;
    EXPECT_EQ(row->second, property.set != nullptr) << property.name;
    documented.erase(row);
  }
  for (const auto& [name, settable] : documented) ADD_FAILURE() << "no property " << name;
}

}  // namespace
}  // namespace tcmalloc
