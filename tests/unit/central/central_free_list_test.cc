// SPDX-License-Identifier: BSD-3-Clause
// CentralFreeList against a naive model that keeps every span's live objects in a std::set.
#include "central/central_free_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "testing/heap_fixture.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

constexpr uint64_t kSeed = 20240131;

// What the program holds, span by span. A span is known by its first address.
class Model {
 public:
  explicit Model(CentralFreeList& list)
      : object_size_(list.object_size()), objects_per_span_(list.objects_per_span()) {}

  // Notes that `objects` were removed and checks that they are what Remove promises for a request
  // of `n`.
  void Removed(TestHeap& heap, const std::vector<void*>& objects, size_t n) {
    const size_t free_before = TotalFree();
    const size_t available = free_before == 0 ? objects_per_span_ : free_before;
    ASSERT_EQ(objects.size(), std::min(n, available));
    for (size_t i = 0; i < objects.size();) {
      const Span* const span = heap.SpanOf(objects[i]);
      ASSERT_NE(span, nullptr);
      const uintptr_t start = span->first_page.start_uintptr();
      ASSERT_TRUE(spans_.count(start) == 1 || free_before == 0) << "a new span without need";
      // The fullest first, as far as the ranks tell.
      ASSERT_TRUE(free_before == 0 || Rank(FreeIn(start)) == LowestRank());
      std::set<uintptr_t>& live = spans_[start];
      uintptr_t lowest_free = start;
      for (; i < objects.size() && span->Contains(objects[i]); ++i) {
        const uintptr_t object = reinterpret_cast<uintptr_t>(objects[i]);
        // The lowest address that is free, each time.
        while (live.count(lowest_free) == 1) lowest_free += object_size_;
        ASSERT_EQ(object, lowest_free);
        ASSERT_LE(object + object_size_, start + span->bytes());
        live.insert(object);
      }
      // No other span is opened while this one has something left.
      if (i < objects.size()) {
        ASSERT_EQ(live.size(), objects_per_span_);
      }
    }
  }

  void Inserted(TestHeap& heap, const std::vector<void*>& objects) {
    for (void* const object : objects) {
      const auto at = std::prev(spans_.upper_bound(reinterpret_cast<uintptr_t>(object)));
      ASSERT_EQ(at->second.erase(reinterpret_cast<uintptr_t>(object)), 1u);
      if (at->second.empty()) spans_.erase(at);
    }
  }

  std::vector<void*> LiveObjects() const {
    std::vector<void*> objects;
    for (const auto& [start, live] : spans_) {
      for (const uintptr_t object : live) objects.push_back(reinterpret_cast<void*>(object));
    }
    return objects;
  }

  void Compare(TestHeap& heap, CentralFreeList& list) const {
    ASSERT_EQ(list.num_spans(), spans_.size());
    ASSERT_EQ(list.free_objects(), TotalFree());
    ASSERT_EQ(list.tail_bytes(),
              spans_.size() * (list.span_bytes() - objects_per_span_ * object_size_));
    // A span without live objects is the page heap's at once.
    ASSERT_EQ(heap.page_heap.GetStats().small_span_bytes, spans_.size() * list.span_bytes());
    list.CheckInvariants();
  }

 private:
  static size_t Rank(size_t free_count) { return static_cast<size_t>(std::bit_width(free_count)); }
  size_t FreeIn(uintptr_t start) const { return objects_per_span_ - spans_.at(start).size(); }
  size_t TotalFree() const {
    size_t total = 0;
    for (const auto& [start, live] : spans_) total += objects_per_span_ - live.size();
    return total;
  }
  size_t LowestRank() const {
    size_t lowest = SIZE_MAX;
    for (const auto& [start, live] : spans_) {
      if (const size_t free = FreeIn(start); free > 0) lowest = std::min(lowest, Rank(free));
    }
    return lowest;
  }

  const size_t object_size_;
  const size_t objects_per_span_;
  std::map<uintptr_t, std::set<uintptr_t>> spans_;
};

std::vector<void*> Remove(CentralFreeList& list, size_t n) {
  std::vector<void*> objects(n);
  objects.resize(list.Remove(objects.data(), n));
  return objects;
}

void Insert(CentralFreeList& list, const std::vector<void*>& objects) {
  list.Insert(objects.data(), objects.size());
}

// Object size and hardware page size.
class CentralFreeListModelTest : public testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(CentralFreeListModelTest, RandomOperations) {
  const auto [object_size, hardware_page_size] = GetParam();
  TestHeap heap(hardware_page_size);
  CentralFreeList list(ClassForSize(object_size), heap.page_heap, heap.page_map, heap.arena);
  ASSERT_EQ(list.object_size(), object_size);
  ASSERT_EQ(list.span_bytes() % hardware_page_size, 0u);
  Model model(list);
  SeededRandom random(kSeed + object_size + hardware_page_size);
  std::vector<void*> held;
  const size_t max_held = std::max<size_t>(8, std::min<size_t>(3000, 5 * list.objects_per_span()));
  bool filling = true;
  for (int step = 0; step < 400; ++step) {
    if (held.size() >= max_held) filling = false;
    if (held.empty()) filling = true;
    if (random.Below(10) < (filling ? 7u : 3u)) {
      const size_t n = random.Between(1, kMaxBatchSize);
      const std::vector<void*> objects = Remove(list, n);
      ASSERT_NO_FATAL_FAILURE(model.Removed(heap, objects, n));
      held.insert(held.end(), objects.begin(), objects.end());
    } else {
      std::shuffle(held.begin(), held.end(), random.engine());
      const size_t n = std::min(held.size(), random.Between(1, kMaxBatchSize));
      const std::vector<void*> objects(held.end() - static_cast<ptrdiff_t>(n), held.end());
      held.resize(held.size() - n);
      Insert(list, objects);
      ASSERT_NO_FATAL_FAILURE(model.Inserted(heap, objects));
    }
    ASSERT_NO_FATAL_FAILURE(model.Compare(heap, list));
    if (step % 50 == 0) heap.page_heap.CheckInvariants();
  }
  std::shuffle(held.begin(), held.end(), random.engine());
  Insert(list, held);
  EXPECT_EQ(list.num_spans(), 0u);
  EXPECT_EQ(list.free_objects(), 0u);
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
  heap.page_heap.CheckInvariants();
}

std::string NameOf(const testing::TestParamInfo<std::tuple<size_t, size_t>>& parameters) {
  const auto [object_size, hardware_page_size] = parameters.param;
  return std::to_string(object_size) + "BytesOn" + std::to_string(hardware_page_size >> 10) +
         "KPages";
}

INSTANTIATE_TEST_SUITE_P(Classes, CentralFreeListModelTest,
                         testing::Combine(testing::Values(8, 16, 48, 112, 576, 1024, 7168, 8192,
                                                          40960, 262144),
                                          testing::Values(4096, 16384, 65536)),
                         NameOf);

// Every class can be made on every page size, and its objects fill the span that it says.
TEST(CentralFreeListTest, EveryClassOnEveryPageSize) {
  for (const size_t hardware_page_size : {4096, 16384, 65536}) {
    TestHeap heap(hardware_page_size);
    for (size_t i = 1; i < kNumSizeClasses; ++i) {
      CentralFreeList& list = heap.central.free_list(static_cast<SizeClass>(i));
      ASSERT_GE(list.objects_per_span(), 1u);
      ASSERT_LT(list.span_bytes() - list.objects_per_span() * list.object_size(),
                list.object_size());
      std::vector<void*> objects = Remove(list, list.objects_per_span());
      ASSERT_EQ(objects.size(), list.objects_per_span());
      ASSERT_EQ(list.num_spans(), 1u);
      ASSERT_EQ(list.free_objects(), 0u);
      for (size_t j = 0; j < objects.size(); ++j) {
        ASSERT_EQ(heap.page_map.ClassOf(objects[j]), static_cast<SizeClass>(i));
        ASSERT_EQ(static_cast<char*>(objects[j]),
                  static_cast<char*>(objects[0]) + j * list.object_size());
      }
      Insert(list, objects);
      ASSERT_EQ(list.num_spans(), 0u);
      ASSERT_EQ(heap.page_map.ClassOf(objects[0]), SizeClass::kNone);
      ASSERT_EQ(heap.page_map.ClassOf(objects.back()), SizeClass::kNone);
    }
    heap.CheckInvariants();
  }
}

TEST(CentralFreeListTest, HandsOutFromTheFullestSpan) {
  TestHeap heap;
  CentralFreeList list(ClassForSize(1024), heap.page_heap, heap.page_map, heap.arena);
  const size_t per_span = list.objects_per_span();
  std::vector<void*> first = Remove(list, per_span);
  std::vector<void*> second = Remove(list, per_span);
  ASSERT_EQ(list.num_spans(), 2u);
  // One free object in the second span, three quarters of the first.
  Insert(list, {first.begin(), first.begin() + static_cast<ptrdiff_t>(per_span * 3 / 4)});
  void* const lonely = second[per_span / 2];
  Insert(list, {lonely});
  const std::vector<void*> two = Remove(list, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0], lonely);
  EXPECT_EQ(two[1], first[0]);
}

// What the program writes into a free object changes nothing: the allocator keeps nothing there.
TEST(CentralFreeListTest, FreeObjectsAreNeitherReadNorWritten) {
  TestHeap heap;
  CentralFreeList list(ClassForSize(64), heap.page_heap, heap.page_map, heap.arena);
  std::vector<void*> objects = Remove(list, list.objects_per_span());
  void* const kept = objects.back();
  objects.pop_back();
  Insert(list, objects);
  for (void* const object : objects) memset(object, 0xa5, 64);
  list.CheckInvariants();
  const std::vector<void*> again = Remove(list, objects.size());
  EXPECT_EQ(again, objects);
  for (void* const object : again) {
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(static_cast<unsigned char*>(object)[i], 0xa5);
  }
  Insert(list, again);
  Insert(list, {kept});
  EXPECT_EQ(list.num_spans(), 0u);
}

// While one thread is in the system for a further span, another returns an object that would do.
// Every span here still has a live object afterwards.
TEST(CentralFreeListTest, AnObjectReturnedWhileTheHeapGrows) {
  TestHeap heap;
  CentralFreeList list(ClassForSize(8192), heap.page_heap, heap.page_map, heap.arena);
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
    if (held.size() < 8) grown = false;  // the first mappings are not the ones that count
    held.push_back(objects[0]);
  }
  heap.vm.OnNextMap(nullptr);
  Insert(list, held);
  EXPECT_EQ(list.num_spans(), 0u);
}

// Mappings fail from the nth on, or the nth alone: what was handed out stays good, nothing leaks,
// and when memory is back everything goes on.
TEST(CentralFreeListTest, OutOfMemoryAtEveryMapping) {
  for (const size_t object_size : {size_t{8}, size_t{1024}, size_t{262144}}) {
    for (const bool only_once : {false, true}) {
      for (size_t nth = 1; nth <= 8; ++nth) {
        SCOPED_TRACE(testing::Message() << object_size << " bytes, mapping " << nth
                                        << (only_once ? " alone" : " and all behind"));
        TestHeap heap;
        CentralFreeList list(ClassForSize(object_size), heap.page_heap, heap.page_map, heap.arena);
        heap.vm.FailMap(nth, only_once ? 1 : FakeVirtualMemory::kForever);
        std::vector<void*> held;
        size_t refused = 0;
        int calls_after_failure = 0;
        for (int i = 0; i < 1000 && calls_after_failure < 4; ++i) {
          const size_t metadata = heap.arena.allocated_bytes();
          const std::vector<void*> objects = Remove(list, list.objects_per_span());
          if (objects.empty()) {
            ++refused;
            // Span records stay in the page heap's store; a second refusal takes nothing more.
            if (refused > 1 && !only_once) {
              ASSERT_EQ(heap.arena.allocated_bytes(), metadata);
            }
          }
          held.insert(held.end(), objects.begin(), objects.end());
          if (heap.vm.map_failures() == 0) continue;
          ++calls_after_failure;
          list.CheckInvariants();
          heap.page_heap.CheckInvariants();
          ASSERT_EQ(heap.page_heap.GetStats().small_span_bytes,
                    list.num_spans() * list.span_bytes());
        }
        EXPECT_EQ(calls_after_failure, 4);
        if (!only_once) {
          EXPECT_GT(refused, 0u);
        }
        ASSERT_EQ(std::set<void*>(held.begin(), held.end()).size(), held.size());
        heap.vm.StopFailing();
        const std::vector<void*> more = Remove(list, 1);
        ASSERT_EQ(more.size(), 1u);
        Insert(list, more);
        Insert(list, held);
        EXPECT_EQ(list.num_spans(), 0u);
        EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
        heap.page_heap.CheckInvariants();
      }
    }
  }
}

class CentralFreeListDeathTest : public testing::Test {
 protected:
  CentralFreeListDeathTest() : objects_(Remove(list_, 100)) {}

  std::string Line(const void* p, const std::string& what) {
    return "tcmalloc: free of " + PointerText(p) + ": " + what + "\n";
  }
  // Inserting `objects` writes exactly `line` and aborts.
  void ExpectDeath(const std::vector<void*>& objects, const std::string& line) {
    EXPECT_EXIT(Insert(list_, objects), testing::KilledBySignal(SIGABRT),
                testing::Eq<std::string>(line));
  }

  TestHeap heap_;
  CentralFreeList& list_ = heap_.central.free_list(ClassForSize(48));
  const std::vector<void*> objects_;
};

TEST_F(CentralFreeListDeathTest, DoubleFree) {
  Insert(list_, {objects_[7]});
  const std::string line = Line(objects_[7], "double free, the object of 48 bytes is already free");
  ExpectDeath({objects_[7]}, line);
  // Behind good ones in the same call.
  ExpectDeath({objects_[1], objects_[2], objects_[7], objects_[3]}, line);
}

TEST_F(CentralFreeListDeathTest, TwiceInOneCall) {
  ExpectDeath({objects_[5], objects_[6], objects_[5]},
              Line(objects_[5], "double free, the object of 48 bytes is already free"));
}

// The first free of the last live object empties the span; the second one is seen for what it is
// all the same.
TEST_F(CentralFreeListDeathTest, TwiceInTheCallThatEmptiesTheSpan) {
  std::vector<void*> all = objects_;
  all.push_back(objects_[9]);
  ExpectDeath(all, Line(objects_[9], "double free, the object of 48 bytes is already free"));
}

TEST_F(CentralFreeListDeathTest, AfterTheSpanIsGone) {
  Insert(list_, objects_);
  ASSERT_EQ(list_.num_spans(), 0u);
  ExpectDeath(
      {objects_[9]},
      Line(objects_[9], "no object is in use there (freed before, or never the start of one)"));
}

TEST_F(CentralFreeListDeathTest, InteriorPointer) {
  for (const size_t offset : {1, 8, 16, 47}) {
    void* const p = static_cast<char*>(objects_[3]) + offset;
    ExpectDeath({p}, Line(p, "not the start of an object, but a pointer into one of 48 bytes"));
  }
}

// Behind the last object of the span there is a tail that no object fills.
TEST_F(CentralFreeListDeathTest, PointerIntoTheTail) {
  const std::vector<void*> rest = Remove(list_, list_.objects_per_span());
  ASSERT_EQ(list_.num_spans(), 1u);
  ASSERT_GT(list_.tail_bytes(), 0u);
  void* const p = static_cast<char*>(rest.back()) + 48;
  ExpectDeath({p}, Line(p, "not the start of an object, but a pointer into one of 48 bytes"));
}

TEST_F(CentralFreeListDeathTest, ObjectOfAnotherClass) {
  void* const other = Remove(heap_.central.free_list(ClassForSize(64)), 1)[0];
  ExpectDeath({other},
              Line(other, "no object is in use there (freed before, or never the start of one)"));
}

TEST_F(CentralFreeListDeathTest, PointerThatIsNotOurs) {
  void* const stranger = &heap_;
  ExpectDeath(
      {stranger},
      Line(stranger, "no object is in use there (freed before, or never the start of one)"));
}

// The line is written with no lock held: a handler of the program for SIGABRT may allocate.
TEST_F(CentralFreeListDeathTest, ReportsWithoutALock) {
  static CentralFreeList* list;
  list = &list_;
  const auto handler = [](int) {
    void* object;
    _exit(list->Remove(&object, 1) == 1 ? 77 : 78);
  };
  Insert(list_, {objects_[7]});
  EXPECT_EXIT(
      {
        signal(SIGABRT, handler);
        Insert(list_, {objects_[7]});
      },
      testing::ExitedWithCode(77),
      testing::Eq<std::string>(
          Line(objects_[7], "double free, the object of 48 bytes is already free")));
}

// Many threads on one list: no object is ever in two hands. (ThreadSanitizer watches the contents
// as well.)
TEST(CentralFreeListTest, ManyThreads) {
  constexpr size_t kThreads = 8;
  TestHeap heap;
  CentralFreeList list(ClassForSize(256), heap.page_heap, heap.page_map, heap.arena);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&list, t] {
      SeededRandom random(kSeed + t);
      std::vector<void*> held;
      for (int step = 0; step < 300; ++step) {
        if (random.OneIn(2)) {
          for (void* const object : Remove(list, random.Between(1, 64))) {
            *static_cast<size_t*>(object) = t;
            held.push_back(object);
          }
        } else {
          std::shuffle(held.begin(), held.end(), random.engine());
          const size_t n = random.Between(0, held.size());
          const std::vector<void*> objects(held.end() - static_cast<ptrdiff_t>(n), held.end());
          for (void* const object : objects) ASSERT_EQ(*static_cast<size_t*>(object), t);
          held.resize(held.size() - n);
          Insert(list, objects);
        }
        if (step % 64 == 0) list.CheckInvariants();
      }
      Insert(list, held);
    });
  }
  for (std::thread& thread : threads) thread.join();
  list.CheckInvariants();
  EXPECT_EQ(list.num_spans(), 0u);
  EXPECT_EQ(list.free_objects(), 0u);
  heap.page_heap.CheckInvariants();
  EXPECT_EQ(heap.page_heap.GetStats().small_span_bytes, 0u);
}

}  // namespace
}  // namespace tcmalloc
