// SPDX-License-Identifier: BSD-3-Clause
// Compares CentralFreeList with a naive model that knows which objects of each span are free.
#include "central/central_free_list.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "page_heap/span_home.h"
#include "testing/heap_fixture.h"
#include "testing/kept_spans.h"
#include "testing/random.h"
#include "testing/sanitizers.h"
#include "testing/thread_state.h"
#include "testing/touch_watch.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kFreeListSeed = 20240131;

// Knows for each span which of its objects are free. A span is identified by its first address.
class Model {
 public:
  explicit Model(CentralFreeList& list)
      : object_size_(list.object_size()),
        objects_per_span_(list.objects_per_span()),
        line_objects_(LineObjects(list.object_size())) {
    EXPECT_EQ(list.line_objects(), line_objects_);
  }

  // The size of a line batch.
  static size_t LineObjects(size_t object_size) {
    size_t n = 1;
    while (n * object_size % 64 != 0) ++n;
    return n;
  }

  // From now on the shard has `threads` living threads.
  void SetThreads(size_t shard, size_t threads) { shards_[shard].threads = threads; }

  // Records that `objects` were removed, and checks what Remove promises to a caller of shard `own`
  // for a request of `n`. `kept`: the shard had a span of the class before, and kept pages for this
  // number of further spans.
  void Removed(TestHeap& heap, size_t own, size_t kept, const std::vector<void*>& objects,
               size_t n) {
    ASSERT_FALSE(objects.empty());
    Answer answer{heap, objects, n};
    shards_[own].used_at = fresh_spans_;
    if (FreeInShard(own) > 0) {
      ASSERT_NO_FATAL_FAILURE(TakeAnyFrom(answer, own));
    } else if (kept == 0) {
      ASSERT_NO_FATAL_FAILURE(TakeFromOthers(answer, own, RefillSource::kEndedThreads));
      if (answer.checked == 0) {
        ASSERT_NO_FATAL_FAILURE(TakeFromOthers(answer, own, RefillSource::kIdleThreads));
      }
    }
    const size_t new_spans = answer.checked == 0 ? NewSpansFor(n, kept) : 0;
    for (size_t i = 0; i < new_spans; ++i) {
      ASSERT_FALSE(answer.done()) << "too few objects";
      const uintptr_t start = StartOf(heap, answer.next());
      ASSERT_EQ(spans_.count(start), 0u) << "from the wrong span";
      spans_[start] = {std::vector<bool>(objects_per_span_, true), own};
      ASSERT_EQ(ClassAtEndsOf(heap, start), ClassForSize(object_size_));
      shards_[own].has_had_spans = true;
      ASSERT_NO_FATAL_FAILURE(TakeAnyFrom(answer, own));
      ++new_spans_;
      if (kept == 0) shards_[own].used_at = ++fresh_spans_;
    }
    ASSERT_EQ(answer.checked, objects.size()) << "too many objects";
  }

  void Inserted(TestHeap& heap, const std::vector<void*>& objects) {
    for (void* const object : objects) {
      const auto at = std::prev(spans_.upper_bound(reinterpret_cast<uintptr_t>(object)));
      const size_t i = (reinterpret_cast<uintptr_t>(object) - at->first) / object_size_;
      ASSERT_FALSE(at->second.free[i]);
      at->second.free[i] = true;
      if (FreeIn(at->first) < objects_per_span_) continue;
      ASSERT_EQ(ClassAtEndsOf(heap, at->first), SizeClass::kNone);
      spans_.erase(at);
    }
  }

  void Compare(TestHeap& heap, CentralFreeList& list) const {
    ASSERT_EQ(list.num_spans(), spans_.size());
    ASSERT_EQ(list.free_objects(), TotalFree());
    ASSERT_EQ(list.tail_bytes(),
              spans_.size() * (list.span_bytes() - objects_per_span_ * object_size_));
    // A span without live objects returns to the page heap at once.
    ASSERT_EQ(heap.page_heap.GetStats().small_span_bytes, spans_.size() * list.span_bytes());
    list.CheckInvariants();
  }

  // How often objects came from the shard of an ended thread, of an idle one, and from a new span.
  size_t from_ended() const { return from_others_[0]; }
  size_t from_idle() const { return from_others_[1]; }
  size_t new_spans() const { return new_spans_; }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  // The most kept spans that one request takes.
  static constexpr size_t kSpansAtOnce = 8;

  // The number of spans that a request takes from the page heap: several kept ones if each has few
  // objects and no objects share a line.
  size_t NewSpansFor(size_t n, size_t kept) const {
    if (kept == 0 || line_objects_ > 1 || objects_per_span_ > 64) return 1;
    return std::min({(n + objects_per_span_ - 1) / objects_per_span_, kept, kSpansAtOnce});
  }

  struct ModelSpan {
    std::vector<bool> free;
    size_t shard;
  };

  // The objects that a call to Remove returned, and how many of them are checked.
  struct Answer {
    TestHeap& heap;
    const std::vector<void*>& objects;
    const size_t n;
    size_t checked = 0;

    size_t wanted() const { return n - checked; }
    bool done() const { return checked == objects.size(); }
    void* next() const { return objects[checked]; }
  };

  struct ModelShard {
    size_t threads = 0;
    size_t used_at = 0;      // fresh_spans_ at the last use
    size_t adopter = kNone;  // the shard whose thread has adopted this one while it lives
    size_t last_source = 0;  // the distance of the last source from this shard
    bool has_had_spans = false;
  };

  bool OtherAdopts(size_t own, size_t shard) const {
    const size_t adopter = shards_[shard].adopter;
    return line_objects_ > 1 && adopter != kNone && adopter != own && shards_[adopter].threads > 0;
  }

  // Takes objects from the first shard that has free objects for the source. The search begins with
  // the shard that last served `own`, else with the one after `own`.
  void TakeFromOthers(Answer& answer, size_t own, RefillSource source) {
    const size_t last = shards_[own].last_source;
    for (size_t i = 0; i < ShardMap::kMost && answer.checked == 0; ++i) {
      const size_t shard = (own + last + i) % ShardMap::kMost;
      if (shard == own || shard >= TestHeap::kShards || FreeInShard(shard) == 0) continue;
      const Takeable take =
          TakeFromOther(source, {shards_[shard].threads > 0 || OtherAdopts(own, shard),
                                 fresh_spans_ - shards_[shard].used_at});
      if (take == Takeable::kAny) {
        ASSERT_NO_FATAL_FAILURE(TakeAnyFrom(answer, shard));
      } else if (take == Takeable::kWholeGroups && answer.n >= line_objects_) {
        ASSERT_NO_FATAL_FAILURE(TakeWholeFrom(answer, shard));
      }
      if (answer.checked == 0) continue;
      if (source == RefillSource::kEndedThreads) {
        shards_[shard].adopter = own;
        shards_[shard].used_at = fresh_spans_;
      }
      if (shards_[own].has_had_spans) {
        shards_[own].last_source = (shard - own) % ShardMap::kMost;
      }
    }
    if (answer.checked > 0) ++from_others_[source == RefillSource::kIdleThreads];
  }

  // Takes whole line batches of a shard while any fit, from one span after the other, from each up
  // to its last whole line batch.
  void TakeWholeFrom(Answer& answer, size_t shard) {
    uintptr_t current = 0;
    while (!answer.done() && LowestRank(shard, true) != kNone) {
      const uintptr_t start = StartOf(answer.heap, answer.next());
      ASSERT_EQ(spans_.count(start), 1u) << "a needless new span";
      if (ShardOf(answer.heap, start) != shard) break;
      ASSERT_TRUE(start == current || current == 0 || LowestWholeGroup(current) == kNone);
      ASSERT_TRUE(start == current || Rank(FreeIn(start)) == LowestRank(shard, true));
      const size_t first = LowestWholeGroup(start);
      ASSERT_NE(first, kNone) << "a group is divided while there are whole ones";
      const size_t end = std::min(first + line_objects_, objects_per_span_);
      ASSERT_LE(end - first, answer.objects.size() - answer.checked);
      for (size_t j = first; j < end; ++j) {
        ASSERT_NO_FATAL_FAILURE(Take(start, j, answer.next()));
        ++answer.checked;
      }
      current = start;
    }
    ASSERT_TRUE(answer.wanted() < line_objects_ || LowestRank(shard, true) == kNone)
        << "a whole group was left";
  }

  // Takes free objects of a shard, from one span after the other: within a span the lowest one of a
  // divided line batch, else the lowest one.
  void TakeAnyFrom(Answer& answer, size_t shard) {
    // If a line batch has several objects, spans may be listed as having whole line batches without
    // a check that they do.
    const bool ranks = line_objects_ == 1;
    uintptr_t current = 0;
    while (!answer.done()) {
      const uintptr_t start = StartOf(answer.heap, answer.next());
      if (spans_.count(start) == 0 || ShardOf(answer.heap, start) != shard) break;
      ASSERT_TRUE(start == current || current == 0 || FreeIn(current) == 0);
      if (ranks && start != current) {
        ASSERT_EQ(Rank(FreeIn(start)), LowestRank(shard, false));
      }
      size_t expected = LowestDivided(start);
      if (expected == kNone) expected = LowestFree(start);
      ASSERT_NO_FATAL_FAILURE(Take(start, expected, answer.next()));
      ++answer.checked;
      current = start;
    }
    ASSERT_TRUE(answer.wanted() == 0 || FreeInShard(shard) == 0) << "a free object was left";
  }

  void Take(uintptr_t start, size_t i, void* object) {
    ASSERT_EQ(reinterpret_cast<uintptr_t>(object), start + i * object_size_);
    ASSERT_TRUE(spans_[start].free[i]);
    spans_[start].free[i] = false;
  }

  size_t ShardOf(TestHeap& heap, uintptr_t start) const {
    const size_t shard = spans_.at(start).shard;
    EXPECT_EQ(heap.ShardOf(reinterpret_cast<void*>(start)), shard);
    return shard;
  }

  // The class of the first and the last object of a span in the page map.
  SizeClass ClassAtEndsOf(TestHeap& heap, uintptr_t start) const {
    const uintptr_t last = start + (objects_per_span_ - 1) * object_size_;
    const SizeClass c = heap.page_map.ClassOf(reinterpret_cast<void*>(start));
    EXPECT_EQ(heap.page_map.ClassOf(reinterpret_cast<void*>(last)), c);
    return c;
  }
  uintptr_t StartOf(TestHeap& heap, void* object) const {
    return heap.SpanOf(object)->first_page.start_uintptr();
  }
  static size_t Rank(size_t free_count) { return static_cast<size_t>(std::bit_width(free_count)); }
  size_t FreeIn(uintptr_t start) const {
    const std::vector<bool>& free = spans_.at(start).free;
    return static_cast<size_t>(std::count(free.begin(), free.end(), true));
  }
  size_t TotalFree() const {
    size_t total = 0;
    for (const auto& [start, span] : spans_) total += FreeIn(start);
    return total;
  }
  size_t FreeInShard(size_t shard) const {
    size_t total = 0;
    for (const auto& [start, span] : spans_) total += span.shard == shard ? FreeIn(start) : 0;
    return total;
  }
  // The lowest rank of a span of the shard with a free object, or with a whole line batch. kNone if
  // there is no such span.
  size_t LowestRank(size_t shard, bool whole) const {
    size_t lowest = kNone;
    for (const auto& [start, span] : spans_) {
      if (span.shard != shard) continue;
      if (whole ? LowestWholeGroup(start) == kNone : LowestFree(start) == kNone) continue;
      lowest = std::min(lowest, Rank(FreeIn(start)));
    }
    return lowest;
  }
  // True if all existing objects in the line batch of `first` are free.
  static bool IsWhole(const std::vector<bool>& free, size_t first, size_t line_objects) {
    const size_t end = std::min(first + line_objects, free.size());
    return std::find(free.begin() + static_cast<ptrdiff_t>(first),
                     free.begin() + static_cast<ptrdiff_t>(end),
                     false) == free.begin() + static_cast<ptrdiff_t>(end);
  }
  size_t LowestFree(uintptr_t start) const {
    const std::vector<bool>& free = spans_.at(start).free;
    const auto found = std::find(free.begin(), free.end(), true);
    return found == free.end() ? kNone : static_cast<size_t>(found - free.begin());
  }
  size_t LowestWholeGroup(uintptr_t start) const {
    const std::vector<bool>& free = spans_.at(start).free;
    for (size_t first = 0; first < free.size(); first += line_objects_) {
      if (IsWhole(free, first, line_objects_)) return first;
    }
    return kNone;
  }
  size_t LowestDivided(uintptr_t start) const {
    const std::vector<bool>& free = spans_.at(start).free;
    for (size_t i = 0; i < free.size(); ++i) {
      if (free[i] && !IsWhole(free, i - i % line_objects_, line_objects_)) return i;
    }
    return kNone;
  }

  const size_t object_size_;
  const size_t objects_per_span_;
  const size_t line_objects_;
  std::map<uintptr_t, ModelSpan> spans_;
  std::array<ModelShard, TestHeap::kShards> shards_;
  size_t from_others_[2] = {0, 0};
  size_t new_spans_ = 0;
  // The number of new spans, without kept ones.
  size_t fresh_spans_ = 0;
};

// Removes objects and returns them in the order of their use. Each shard's thread has a CPU of its
// own. The slots after the objects must stay unchanged.
std::vector<void*> Remove(CentralFreeList& list, size_t n, size_t own = 0) {
  test_processor = static_cast<int>(own);
  int untouched;
  std::vector<void*> objects(n + 1, &untouched);
  const size_t taken = list.Remove(list.shards().Ensure(own), objects.data(), n);
  EXPECT_EQ(objects[n], &untouched);
  objects.resize(taken);
  std::reverse(objects.begin(), objects.end());
  return objects;
}

void Insert(CentralFreeList& list, const std::vector<void*>& objects, size_t own = 0) {
  test_processor = static_cast<int>(own);
  list.Insert(list.shards().Ensure(own), objects.data(), objects.size());
}

void RemoveThreads(Shard& shard) {
  while (shard.num_threads() > 0) shard.RemoveThread();
}

// Object size, hardware page size, and the number of shards.
using ModelParam = std::tuple<size_t, size_t, size_t>;
class CentralFreeListModelTest : public testing::TestWithParam<ModelParam> {};

TEST_P(CentralFreeListModelTest, RandomOperations) {
  const auto [object_size, hardware_page_size, num_shards] = GetParam();
  // Two shards that are not adjacent, and the last one, which the first one follows.
  const std::array<size_t, 3> shards{0, 5, TestHeap::kShards - 1};
  TestHeap heap(hardware_page_size);
  const SizeClass list_class = ClassForSize(object_size);
  CentralFreeList& list = heap.central.free_list(list_class);
  ASSERT_EQ(list.object_size(), object_size);
  ASSERT_EQ(list.span_bytes() % hardware_page_size, 0u);
  Model model(list);
  SeededRandom random(kFreeListSeed + object_size + hardware_page_size);
  std::vector<void*> held;
  const size_t max_held = std::max<size_t>(8, std::min<size_t>(3000, 5 * list.objects_per_span()));
  bool filling = true;
  for (int step = 0; step < 400; ++step) {
    if (step % 20 == 0) {
      // A thread starts or ends.
      const size_t changed = shards[random.Below(num_shards)];
      Shard& shard = list.shards().Ensure(changed);
      shard.num_threads() < 2 && random.OneIn(2) ? shard.AddThread() : RemoveThreads(shard);
      model.SetThreads(changed, shard.num_threads());
    }
    if (held.size() >= max_held) filling = false;
    if (held.empty()) filling = true;
    if (random.Below(10) < (filling ? 7u : 3u)) {
      size_t n = random.Between(1, kMaxBatchSize);
      if (random.OneIn(3)) n = random.Between(1, 8);
      if (random.OneIn(3)) n = std::max<size_t>(1, n / 8) * 8;
      const size_t own = shards[random.Below(num_shards)];
      Shard& shard = list.shards().Ensure(own);
      const Length span_pages = Length::ForBytes(list.span_bytes());
      const bool may_have =
          shard.spans(list_class) != nullptr && span_pages.pages() <= kMaxKeptPages;
      const size_t kept = may_have ? shard.home().kept.count(span_pages) : 0;
      const std::vector<void*> objects = Remove(list, n, own);
      ASSERT_NO_FATAL_FAILURE(model.Removed(heap, own, kept, objects, n)) << "step " << step;
      held.insert(held.end(), objects.begin(), objects.end());
    } else {
      // The objects are freed in random, ascending or descending order, or ascending from somewhere
      // in the middle.
      const size_t order = random.Below(4);
      std::shuffle(held.begin(), held.end(), random.engine());
      if (order == 1) std::sort(held.begin(), held.end());
      if (order == 2) std::sort(held.begin(), held.end(), std::greater<>());
      if (order == 3 && !held.empty()) {
        std::sort(held.begin(), held.end());
        std::rotate(held.begin(), held.begin() + static_cast<ptrdiff_t>(random.Below(held.size())),
                    held.end());
      }
      const size_t most = random.OneIn(10) ? max_held : kMaxBatchSize;
      const size_t n = std::min(held.size(), random.Between(1, most));
      const std::vector<void*> objects(held.end() - static_cast<ptrdiff_t>(n), held.end());
      held.resize(held.size() - n);
      Insert(list, objects, shards[random.Below(num_shards)]);
      ASSERT_NO_FATAL_FAILURE(model.Inserted(heap, objects));
    }
    ASSERT_NO_FATAL_FAILURE(model.Compare(heap, list));
    if (step % 50 == 0) heap.page_heap.store()->CheckInvariants();
  }
  std::shuffle(held.begin(), held.end(), random.engine());
  Insert(list, held);
  EXPECT_EQ(list.num_spans(), 0u);
  EXPECT_EQ(list.free_objects(), 0u);
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
  heap.page_heap.store()->CheckInvariants();
  EXPECT_GT(model.new_spans(), num_shards);
  if (num_shards > 1 && list.objects_per_span() > kSizeClasses.batch_size(list_class)) {
    EXPECT_GT(model.from_ended() + model.from_idle(), 0u);
  }
}

std::string NameOfModel(const testing::TestParamInfo<ModelParam>& parameters) {
  const auto [object_size, hardware_page_size, num_shards] = parameters.param;
  return std::to_string(object_size) + "BytesOn" + std::to_string(hardware_page_size >> 10) +
         "KPagesIn" + std::to_string(num_shards) + "Shards";
}

INSTANTIATE_TEST_SUITE_P(Classes, CentralFreeListModelTest,
                         testing::Combine(testing::Values(8, 16, 32, 48, 64, 96, 112, 480, 576,
                                                          1024, 7168, 8192, 40960, 65536),
                                          testing::Values(4096, 16384, 65536),
                                          testing::Values(1, 3)),
                         NameOfModel);

TEST(CentralFreeListTest, EveryClassOnEveryPageSize) {
  for (const size_t hardware_page_size : {4096, 16384, 65536}) {
    TestHeap heap(hardware_page_size);
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      const SizeClass c = static_cast<SizeClass>(i);
      CentralFreeList& list = heap.central.free_list(c);
      ASSERT_LT(list.span_bytes() - list.objects_per_span() * list.object_size(),
                list.object_size());
      const std::vector<void*> objects = heap.Take(c, list.objects_per_span());
      ASSERT_EQ(list.num_spans(), 1u);
      for (size_t j = 0; j < objects.size(); ++j) {
        ASSERT_EQ(heap.page_map.ClassOf(objects[j]), c);
        ASSERT_EQ(objects[j], static_cast<char*>(objects[0]) + j * list.object_size());
      }
      Insert(list, objects);
      ASSERT_EQ(list.num_spans(), 0u);
    }
    heap.CheckInvariants();
  }
}

// A refused request keeps the records that it has made, so a second one takes no further memory.
// Until then, what other shards have left serves.
TEST(CentralFreeListTest, RefusalsTakeNoMemory) {
  for (const size_t object_size : {size_t{8}, size_t{1024}, kMaxSmallSize}) {
    for (size_t nth = 1; nth <= 8; ++nth) {
      SCOPED_TRACE(testing::Message() << object_size << " bytes, mapping " << nth);
      TestHeap heap;
      CentralFreeList& list = heap.central.free_list(ClassForSize(object_size));
      heap.vm.FailMap(nth, FakeVirtualMemory::kForever);
      std::vector<void*> held;
      std::array<size_t, 3> refused{};  // refusals of each shard
      for (size_t i = 0; i < 1000; ++i) {
        const size_t own = i % refused.size();
        const size_t metadata = heap.arena.allocated_bytes();
        const std::vector<void*> objects = Remove(list, list.objects_per_span(), own);
        held.insert(held.end(), objects.begin(), objects.end());
        if (objects.empty() && ++refused[own] > 1) {
          ASSERT_EQ(heap.arena.allocated_bytes(), metadata);
        }
      }
      for (const size_t times : refused) EXPECT_GT(times, 1u);
      heap.CheckInvariants();
      heap.vm.StopFailing();
      held.push_back(Remove(list, 1).at(0));
      Insert(list, held);
      EXPECT_EQ(list.num_spans(), 0u);
      heap.page_heap.store()->CheckInvariants();
    }
  }
}

TEST(CentralFreeListTest, KnowsWhatIsInUse) {
  TestHeap heap;
  CentralFreeList& list = heap.central.free_list(ClassForSize(48));
  const std::vector<void*> far = Remove(list, list.objects_per_span(), 12);
  const std::vector<void*> objects = Remove(list, 8);
  Insert(list, {far[1]}, 5);
  EXPECT_TRUE(list.IsOut(far[0]));
  EXPECT_FALSE(list.IsOut(far[1]));
  // The record names a shard in which the other class has no spans.
  EXPECT_FALSE(heap.central.free_list(ClassForSize(2048)).IsOut(far[0]));
  EXPECT_TRUE(list.IsOut(objects[3]));
  EXPECT_FALSE(list.IsOut(static_cast<char*>(objects[3]) + 16));
  EXPECT_FALSE(list.IsOut(static_cast<char*>(objects[7]) + 48));
  EXPECT_FALSE(list.IsOut(&heap));
  Insert(list, {objects[3]});
  EXPECT_FALSE(list.IsOut(objects[3]));
}

// While one thread gets a further span from the OS, another returns an object that would suffice.
// Every span here still has a live object afterwards.
TEST(CentralFreeListTest, AnObjectReturnedWhileTheHeapGrows) {
  TestHeap heap;
  CentralFreeList& list = heap.central.free_list(ClassForSize(8192));
  std::vector<void*> held;
  bool grown = false;
  while (!grown) {
    heap.vm.OnNextMap([&] {
      grown = true;
      if (held.empty()) return;
      Insert(list, {held.back()});
      held.pop_back();
    });
    const std::vector<void*> objects = Remove(list, 1);
    ASSERT_EQ(objects.size(), 1u);
    list.CheckInvariants();
    if (held.size() < 8) grown = false;  // the first mappings do not count
    held.push_back(objects[0]);
  }
  heap.vm.OnNextMap(nullptr);
  Insert(list, held);
  EXPECT_EQ(list.num_spans(), 0u);
}

// Tests when spans of a class are pre-faulted, depending on how much of them the program touches.
class CentralFreeListPrefaultTest : public testing::Test {
 protected:
  CentralFreeListPrefaultTest() {
    heap_.page_heap.governor()->SetHugepages({HugepageMode::kAdvise});
    heap_.vm.RecordCalls();
  }

  // Takes all objects of a new span. The program touches `touched` bytes of it.
  void NewSpan(size_t touched, size_t shard = 3) {
    std::vector<void*> objects(list_.objects_per_span());
    ASSERT_EQ(list_.Remove(list_.shards().Ensure(shard), objects.data(), objects.size()),
              objects.size());
    if (touched > 0) heap_.vm.Touch(heap_.SpanOf(objects[0])->start_address(), touched);
  }
  void NewSpans(size_t n, size_t touched) {
    for (; n > 0; --n) NewSpan(touched);
  }
  size_t prefaults() { return heap_.page_heap.GetStats().prefaults; }

  TestHeap heap_;
  CentralFreeList& list_ = heap_.central.free_list(ClassForSize(1024));
  const size_t all_ = list_.span_bytes();
};

TEST_F(CentralFreeListPrefaultTest, OnlyClassesWithManySpans) {
  NewSpans(8, all_);
  EXPECT_EQ(prefaults(), 0u);
  NewSpans(7, all_);
  EXPECT_EQ(prefaults(), 7u);
  for (const FakeVirtualMemory::Call& call : heap_.vm.TakeCalls()) {
    if (call.kind == FakeVirtualMemory::Kind::kPopulate) {
      EXPECT_EQ(call.bytes, all_) << "the span and no more";
    }
  }
  // Other shards have spans of their own.
  NewSpan(all_, 4);
  EXPECT_EQ(prefaults(), 7u);
}

TEST_F(CentralFreeListPrefaultTest, NoneWhereTheProgramTouchesLittle) {
  NewSpans(100, all_ / 4 * 3 - 4096);
  EXPECT_EQ(prefaults(), 0u);
}

TEST_F(CentralFreeListPrefaultTest, OneSpanOfEachDoublingShowsWhatTheProgramTouches) {
  NewSpans(16, all_);
  EXPECT_EQ(prefaults(), 7u) << "not the sixteenth";
  NewSpans(15, 0);
  EXPECT_EQ(prefaults(), 22u) << "the sixteenth was touched";
  NewSpans(32, 0);
  EXPECT_EQ(prefaults(), 22u) << "the thirty-second was not";
  NewSpan(all_);
  NewSpan(0);
  EXPECT_EQ(prefaults(), 23u) << "the sixty-fourth was";
}

TEST_F(CentralFreeListPrefaultTest, MemoryThatWasUsedBeforeShowsNothing) {
  NewSpans(7, 0);
  Span* const used = heap_.page_heap.New(Length::ForBytes(all_), SpanState::kLarge);
  ASSERT_NE(used, nullptr);
  heap_.vm.Touch(used->start_address(), all_);
  heap_.page_heap.Delete(used);
  NewSpans(8, 0);
  EXPECT_EQ(prefaults(), 0u);
}

// Tests the order of sources with several shards. One object is one line batch, so that only the
// order of the shards matters.
class CentralFreeListShardsTest : public testing::Test {
 protected:
  ~CentralFreeListShardsTest() override { list_.CheckInvariants(); }

  // Takes all objects of a new span of the shard.
  std::vector<void*> NewSpan(size_t shard) {
    const size_t spans = list_.num_spans();
    test_processor = static_cast<int>(shard);
    const std::vector<void*> objects = heap_.Take(class_, per_span_, shard);
    EXPECT_EQ(list_.num_spans(), spans + 1);
    EXPECT_EQ(list_.free_objects(), 0u);
    for (void* const object : objects) EXPECT_EQ(heap_.ShardOf(object), shard);
    return objects;
  }
  static std::vector<void*> First(const std::vector<void*>& objects, size_t n) {
    return {objects.begin(), objects.begin() + static_cast<ptrdiff_t>(n)};
  }
  SpanHome& HomeOf(size_t shard) { return list_.shards().Ensure(shard).home(); }
  // From now on the OS maps nothing, and neither free pages nor free spans are left.
  void ExhaustMemory() {
    heap_.vm.FailMap(1, FakeVirtualMemory::kForever);
    while (heap_.page_heap.New(Length(1), SpanState::kLarge) != nullptr) {
    }
  }
  // Leaves no memory for a record of `bytes`, nor for a smaller one.
  void ExhaustArena(size_t bytes) {
    for (; bytes >= 16; bytes /= 2) {
      while (heap_.arena.AllocateWithoutGrowing(bytes) != nullptr) {
      }
    }
  }

  TestHeap heap_;
  const SizeClass class_ = ClassForSize(1024);
  const size_t batch_ = kSizeClasses.batch_size(class_);
  CentralFreeList& list_ = heap_.central.free_list(class_);
  const size_t per_span_ = list_.objects_per_span();
};

TEST_F(CentralFreeListShardsTest, OthersLastObjectsWhenTheOsGivesNothing) {
  const std::vector<void*> scraps = NewSpan(6);
  const std::vector<void*> mine = NewSpan(0);
  ASSERT_GT(batch_, 1u);
  ExhaustMemory();
  EXPECT_TRUE(Remove(list_, 1, 0).empty());
  Insert(list_, First(scraps, 1), 0);
  EXPECT_EQ(Remove(list_, 3, 0), First(scraps, 1));
  EXPECT_TRUE(Remove(list_, 3, 0).empty());
  // This is also true for a shard without memory for its records.
  Insert(list_, First(scraps, 1), 0);
  ExhaustArena(MetadataArena::kMaxBytes);
  EXPECT_EQ(Remove(list_, 3, 11), First(scraps, 1));
  EXPECT_TRUE(Remove(list_, 3, 11).empty());
  list_.CheckInvariants();
  heap_.vm.StopFailing();
  EXPECT_EQ(heap_.ShardOf(Remove(list_, 1, 11).at(0)), 11u);
}

// Holds the lock of the class in a shard, in a thread of its own, until `done()` is true. A test
// that never ends shows that the thread that should make it true waits for the lock.
class ShardHolder {
 public:
  ShardHolder(CentralFreeList& list, SizeClass c, size_t shard, std::function<bool()> done)
      : thread_([this, &list, c, shard, done] {
          const SpinLockHolder holder(list.shards().At(shard)->lock(c));
          holds_ = true;
          while (!done()) sched_yield();
        }) {
    while (!holds_) sched_yield();
  }
  ~ShardHolder() { thread_.join(); }

 private:
  std::atomic<bool> holds_{false};
  std::thread thread_;
};

TEST_F(CentralFreeListShardsTest, TheNextShardInThePlaceOfABusyOne) {
  const std::vector<void*> first = NewSpan(1);
  const std::vector<void*> second = NewSpan(3);
  list_.shards().Ensure(0).AddThread();
  Insert(list_, First(first, 1), 0);
  Insert(list_, First(second, 1), 0);
  std::atomic<bool> done{false};
  {
    // Without the holder, the search would find shard 1 first.
    const ShardHolder holder(list_, class_, 1, [&] { return done.load(); });
    EXPECT_EQ(Remove(list_, 1, 0), First(second, 1));
    done = true;
  }
  EXPECT_EQ(Remove(list_, 1, 0), First(first, 1));
}

// A thread that passes over a busy shard does not adopt it.
TEST_F(CentralFreeListShardsTest, ABusyShardStaysOpenToOthers) {
  const SizeClass small = ClassForSize(16);
  CentralFreeList& list = heap_.central.free_list(small);
  Remove(list, 1, 1);
  list.shards().Ensure(1).AddThread();  // so that shard 3 does not adopt it
  Remove(list, 1, 3);
  list.shards().Ensure(1).RemoveThread();
  list.shards().Ensure(0).AddThread();
  list.shards().Ensure(2).AddThread();
  std::atomic<bool> done{false};
  {
    const ShardHolder holder(list, small, 1, [&] { return done.load(); });
    EXPECT_EQ(heap_.ShardOf(Remove(list, 1, 0).at(0)), 3u);
    done = true;
  }
  EXPECT_EQ(heap_.ShardOf(Remove(list, 1, 2).at(0)), 1u);
  EXPECT_EQ(heap_.ShardOf(Remove(list, 1, 0).at(0)), 3u);
  list.CheckInvariants();
}

TEST_F(CentralFreeListShardsTest, TheOnlyShardWithObjectsIsWaitedFor) {
  const std::vector<void*> ended = NewSpan(1);
  list_.shards().Ensure(0).AddThread();
  Insert(list_, First(ended, 1), 0);
  std::atomic<bool> done{false};
  const ShardHolder holder(list_, class_, 1, [&] { return done.load(); });
  std::thread thread = StartUntilAsleep([&] { EXPECT_EQ(Remove(list_, 1, 0), First(ended, 1)); });
  done = true;
  thread.join();
}

// Objects return first to the shards that no other thread is using. Without that rule neither
// thread would continue.
TEST_F(CentralFreeListShardsTest, ObjectsOfABusyShardReturnLast) {
  const std::vector<void*> busy = NewSpan(1);
  const std::vector<void*> other = NewSpan(3);
  const auto other_has = [&] { return list_.shards().At(3)->spans(class_)->free_objects.value(); };
  {
    const ShardHolder holder(list_, class_, 1, [&] { return other_has() == 1; });
    Insert(list_, {busy[0], other[0]}, 0);
  }
  EXPECT_EQ(list_.free_objects(), 2u);
  // The thread waits for the last shard, also if it is the only one.
  std::atomic<bool> done{false};
  {
    const ShardHolder holder(list_, class_, 1, [&] { return done.load(); });
    std::thread thread = StartUntilAsleep([&] { Insert(list_, {busy[1]}, 0); });
    EXPECT_EQ(list_.free_objects(), 2u);
    done = true;
    thread.join();
  }
  EXPECT_EQ(list_.free_objects(), 3u);
}

// Objects of several shards return to their shards in one call, in any order, no matter which shard
// frees them. Each span that becomes empty is kept for its shard. The shard reuses it first if the
// thread that emptied it is of that shard, else after the others.
TEST_F(CentralFreeListShardsTest, ObjectsComeBackToTheirShards) {
  constexpr std::array<size_t, 4> kShards{0, 3, 8, TestHeap::kShards - 1};
  std::vector<void*> all;
  std::map<size_t, std::vector<void*>> of_shard;
  for (const size_t shard : kShards) {
    of_shard[shard] = NewSpan(shard);
    const std::vector<void*> second = NewSpan(shard);
    all.insert(all.end(), second.begin(), second.end());
    for (size_t i = 1; i < per_span_; ++i) all.push_back(of_shard[shard][i]);
  }
  SeededRandom random(kFreeListSeed);
  std::shuffle(all.begin(), all.end(), random.engine());
  Insert(list_, all, 8);
  list_.CheckInvariants();
  EXPECT_EQ(list_.num_spans(), kShards.size());
  EXPECT_EQ(list_.free_objects(), kShards.size() * (per_span_ - 1));
  EXPECT_EQ(heap_.page_heap.GetStats().small_span_bytes, kShards.size() * list_.span_bytes());
  for (const size_t shard : kShards) {
    const std::vector<void*> again = Remove(list_, per_span_, shard);
    EXPECT_EQ(again, std::vector<void*>(of_shard[shard].begin() + 1, of_shard[shard].end()));
  }
  EXPECT_EQ(list_.free_objects(), 0u);
  // Each shard keeps the second of its spans.
  const Length pages = Length::ForBytes(list_.span_bytes());
  for (const size_t shard : kShards) {
    Span* const span = NewFromCache(heap_.page_heap, pages, HomeOf(shard));
    ASSERT_NE(span, nullptr) << shard;
    EXPECT_EQ(SpanOwner::Of(span), SpanOwner(SizeClass::kNone, shard));
    EXPECT_EQ(NewFromCache(heap_.page_heap, pages, HomeOf(shard)), nullptr);
    DeleteToCache(heap_.page_heap, span, HomeOf(shard), true);
    // Shard 8 frees all objects of the first span.
    void* const first_object = of_shard[shard][0];
    Span* const first_span = heap_.SpanOf(first_object);
    Insert(list_, of_shard[shard], 8);
    EXPECT_EQ(NewFromCache(heap_.page_heap, pages, HomeOf(shard)), shard == 8 ? first_span : span);
    EXPECT_EQ(NewFromCache(heap_.page_heap, pages, HomeOf(shard)), shard == 8 ? span : first_span);
  }
  EXPECT_EQ(list_.num_spans(), 0u);
  EXPECT_EQ(list_.free_objects(), 0u);
}

// The thread that allocated the objects runs on the same CPU, whose caches already have the lines.
TEST_F(CentralFreeListShardsTest, LinesOfAThreadOnThisCpuStay) {
  const std::vector<void*> others = NewSpan(1);
  TouchWatch watch(TouchWatch::What::kAnything);
  watch.Watch(others[0], list_.span_bytes());
  test_processor = 1;
  list_.Insert(list_.shards().Ensure(0), &others[1], 2, Origin::kOtherThreads);
  EXPECT_TRUE(watch.touches().empty());
  test_processor = 0;
  list_.Insert(list_.shards().Ensure(0), &others[3], 2, Origin::kOtherThreads);
  EXPECT_FALSE(watch.touches().empty());
}

using CentralFreeListShardsDeathTest = CentralFreeListShardsTest;

// A second free does not touch an object whose pages have left the class: they may be unbacked.
TEST_F(CentralFreeListShardsDeathTest, DoubleFreesOfOthersFarObjects) {
  const std::vector<void*> objects = NewSpan(1);
  const std::vector<void*> gone = NewSpan(1);
  Shard& own = list_.shards().Ensure(0);
  const auto expect_death = [&](const std::vector<void*>& freed, const std::string& what) {
    EXPECT_MISUSE(list_.Insert(own, freed.data(), freed.size(), Origin::kOtherThreads),
                  FreeLine(freed.back(), what));
  };
  list_.Insert(own, &objects[5], 1, Origin::kOtherThreads);
  expect_death({objects[4], objects[5]}, "double free, the object of 1024 bytes is already free");
  list_.Insert(own, gone.data(), per_span_, Origin::kOtherThreads);
  ASSERT_EQ(list_.num_spans(), 1u);
  ASSERT_EQ(mprotect(gone[0], list_.span_bytes(), PROT_NONE), 0);
  const std::string unused = "no object is in use there (freed before, or never the start of one)";
  expect_death({gone[0]}, unused);
  expect_death({objects[6], gone[0]}, unused);
  ASSERT_EQ(mprotect(gone[0], list_.span_bytes(), PROT_READ | PROT_WRITE), 0);
}

class CentralFreeListDeathTest : public testing::Test {
 protected:
  CentralFreeListDeathTest() : objects_(Remove(list_, 100)) {}

  std::string DoubleFree(const void* p) { return DoubleFreeLine(p, 48); }
  std::string NotAStart(const void* p) {
    return FreeLine(p, "not the start of an object, but a pointer into one of 48 bytes");
  }
  std::string NotInUse(const void* p) {
    return FreeLine(p, "no object is in use there (freed before, or never the start of one)");
  }
  // The objects of the first span; allocates those that are left.
  std::vector<void*> AllOfTheSpan() {
    std::vector<void*> all = objects_;
    while (list_.free_objects() > 0) all.push_back(Remove(list_, 1).at(0));
    return all;
  }
  // Inserting `objects` writes exactly `line` and aborts.
  void ExpectDeath(const std::vector<void*>& objects, const std::string& line) {
    EXPECT_MISUSE(Insert(list_, objects), line);
  }

  TestHeap heap_;
  CentralFreeList& list_ = heap_.central.free_list(ClassForSize(48));
  const std::vector<void*> objects_;
};

// The double frees are among adjacent objects that return together, in either direction. The report
// names the first one in the caller's order.
TEST_F(CentralFreeListDeathTest, AmongNeighbours) {
  Insert(list_, {objects_[20], objects_[30]});
  std::vector<void*> neighbours(objects_.begin() + 10, objects_.begin() + 40);
  ExpectDeath(neighbours, DoubleFree(objects_[20]));
  std::reverse(neighbours.begin(), neighbours.end());
  ExpectDeath(neighbours, DoubleFree(objects_[30]));
}

// One call has several errors. The report names the first one, no matter in which order they are
// found.
TEST_F(CentralFreeListDeathTest, TheFirstOfSeveral) {
  Insert(list_, {objects_[20]});
  void* const inside = static_cast<char*>(objects_[50]) + 8;
  ExpectDeath({objects_[1], objects_[20], inside, &heap_}, DoubleFree(objects_[20]));
  ExpectDeath({objects_[1], inside, objects_[20], &heap_}, NotAStart(inside));
  ExpectDeath({objects_[1], &heap_, inside, objects_[20]}, NotInUse(&heap_));
}

// Two threads free the same object. While one of them has found its span and waits for the lock,
// the span is deleted (the test does it for the other thread), and its record may then be in use
// for other pages of the class.
TEST_F(CentralFreeListDeathTest, TheSpanGoesWhileACallWaits) {
#if TESTED_WITH_TSAN
  GTEST_SKIP() << "the mistake of a program that is played here is a data race";
#endif
  const auto change_while = [&](const std::function<void()>& call, void (*change)(Span*)) {
    const SpanOwner owner = SpanOwner::Of(heap_.SpanOf(objects_[7]));
    SpinLock& lock = list_.shards().At(owner.shard())->lock(owner.size_class());
    lock.Lock();
    std::thread other = StartUntilAsleep(call);
    change(heap_.SpanOf(objects_[7]));
    lock.Unlock();
    other.join();
  };
  const auto free_it = [&] { Insert(list_, {objects_[7]}); };
  const auto give_to_shard_3 = [](Span* span) {
    SpanOwner(SpanOwner::Of(span).size_class(), 3, true).StoreIn(span);
  };
  const std::string line = NotInUse(objects_[7]);
  const auto expect_death = [&](void (*change)(Span*)) {
    EXPECT_MISUSE(change_while(free_it, change), line);
  };
  expect_death([](Span* span) { SpanOwner(SizeClass::kNone, 0).StoreIn(span); });
  expect_death([](Span* span) { span->first_page += Length(8); });
  // The span has the same pages, but belongs to another shard, whose lock the call does not wait
  // for. IsOut does not read data that this lock guards, either.
  expect_death(give_to_shard_3);
  bool out = true;
  change_while([&] { out = list_.IsOut(objects_[7]); }, give_to_shard_3);
  EXPECT_FALSE(out);
}

// With several shards, a double free is found no matter which shard the first free was in and which
// frees come between the two.
TEST_F(CentralFreeListDeathTest, DoubleFreeAcrossShards) {
  const std::vector<void*> first = AllOfTheSpan();
  const std::vector<void*> second = Remove(list_, list_.objects_per_span(), 9);
  ASSERT_EQ(heap_.ShardOf(second[0]), 9u);
  ASSERT_EQ(list_.num_spans(), 2u);
  const auto expect_death = [&](const std::vector<void*>& objects, const std::string& line) {
    for (const size_t own : {0, 9, 4}) {
      EXPECT_MISUSE(Insert(list_, objects, own), line);
    }
  };
  expect_death({second[5], first[5], second[5]}, DoubleFree(second[5]));
  expect_death({first[5], second[5], first[5]}, DoubleFree(first[5]));
  // The spans become empty in the same call, in pieces, before or after the second free.
  SeededRandom random(kFreeListSeed);
  for (void* const twice : {first[3], second[3]}) {
    std::vector<void*> all = first;
    all.insert(all.end(), second.begin(), second.end());
    all.push_back(twice);
    expect_death(all, DoubleFree(twice));
    std::shuffle(all.begin(), all.end() - 1, random.engine());
    expect_death(all, DoubleFree(twice));
    std::reverse(all.begin(), all.end());
    expect_death(all, DoubleFree(twice));
  }
  Insert(list_, {first[7], second[7]}, 4);
  expect_death({second[7]}, DoubleFree(second[7]));
  expect_death({first[7]}, DoubleFree(first[7]));
  // Valid frees into the other shard come first.
  expect_death({first[1], second[1], second[7]}, DoubleFree(second[7]));
  void* const inside = static_cast<char*>(second[8]) + 8;
  expect_death({first[1], second[1], inside}, NotAStart(inside));
}

// The record of the pages names a shard in which the class has no spans.
TEST_F(CentralFreeListDeathTest, ObjectOfAnotherClassInAShardThatThisOneLacks) {
  void* const other = Remove(heap_.central.free_list(ClassForSize(64)), 1, 13)[0];
  ExpectDeath({other}, NotInUse(other));
  ExpectDeath({objects_[1], other, objects_[2]}, NotInUse(other));
  // Here the class has spans in the shard, but the pages belong to another class.
  void* const third = Remove(heap_.central.free_list(ClassForSize(64)), 1, 0)[0];
  ExpectDeath({objects_[1], third}, NotInUse(third));
}

TEST_F(CentralFreeListDeathTest, ThePagesWentToAnotherShard) {
  const std::vector<void*> all = AllOfTheSpan();
  Insert(list_, all);
  heap_.page_heap.ReleaseAtLeast(Length(1000));
  const std::vector<void*> again = Remove(list_, 50, 9);
  ASSERT_EQ(again[0], all[0]);
  ASSERT_EQ(heap_.ShardOf(all[0]), 9u);
  ExpectDeath({all[60]}, DoubleFree(all[60]));
}

TEST_F(CentralFreeListDeathTest, NotTheStartOfAnObject) {
  for (const size_t offset : {1, 8, 16, 47}) {
    void* const p = static_cast<char*>(objects_[3]) + offset;
    ExpectDeath({p}, NotAStart(p));
  }
  // The span ends with a tail after its last object.
  const std::vector<void*> rest = Remove(list_, list_.objects_per_span());
  ASSERT_EQ(list_.num_spans(), 1u);
  ASSERT_GT(list_.tail_bytes(), 0u);
  void* const tail = static_cast<char*>(rest.back()) + 48;
  ExpectDeath({tail}, NotAStart(tail));
}

// The line is written with no lock held: a handler of the program for SIGABRT may allocate.
TEST_F(CentralFreeListDeathTest, ReportsWithoutALock) {
  static CentralFreeList* list;
  list = &list_;
  const auto handler = [](int) {
    void* object;
    _exit(list->Remove(list->shards().Ensure(0), &object, 1) == 1 ? 77 : 78);
  };
  Insert(list_, {objects_[7]});
  EXPECT_EXIT(
      {
        signal(SIGABRT, handler);
        Insert(list_, {objects_[7]});
      },
      testing::ExitedWithCode(77), testing::Eq<std::string>(DoubleFree(objects_[7])));
}

}  // namespace
}  // namespace tcmalloc
