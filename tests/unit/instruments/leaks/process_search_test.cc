// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/leaks/process_search.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "instruments/leaks/leak_fixture.h"
#include "testing/fake_virtual_memory.h"
#include "testing/guarded_pages.h"
#include "testing/random.h"

namespace tcmalloc {
namespace {

size_t HardwarePageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// An index, and the marks of objects that are reachable from the roots that the test adds.
struct MarkedLook : Look {
  explicit MarkedLook(const Marker::Options& options = {}, const MemoryReader* reader = nullptr)
      : marker(index, memory, options, reader) {
    EXPECT_TRUE(marker.Prepare());
  }
  void AddRange(const GuardedPages& pages) {
    EXPECT_TRUE(marker.AddRange(pages.start(), pages.end()));
  }
  void AddWords(const uintptr_t* words, size_t n) {
    EXPECT_TRUE(marker.AddRange(AddressOf(words), AddressOf(words + n)));
  }
  void Run() { EXPECT_TRUE(marker.Run()); }
  bool IsMarked(const void* object) const {
    LiveObject found;
    EXPECT_TRUE(index.Find(AddressOf(object), &found)) << object;
    return marker.IsMarked(found.number);
  }
  // The unmarked objects that pointers to any of their bytes reach.
  std::set<uintptr_t> ReachedFar() {
    EXPECT_TRUE(marker.FindReachedFar());
    std::set<uintptr_t> reached;
    marker.ForEachUnmarked([&](const LiveObject& object) {
      if (marker.IsReachedFar(object.number)) reached.insert(object.start);
    });
    return reached;
  }
  bool IsIndirect(const void* object) const {
    LiveObject found;
    EXPECT_TRUE(index.Find(AddressOf(object), &found)) << object;
    return marker.IsIndirect(found.number);
  }
  std::set<uintptr_t> Unmarked() const {
    std::set<uintptr_t> unmarked;
    marker.ForEachUnmarked([&](const LiveObject& object) { unmarked.insert(object.start); });
    EXPECT_EQ(unmarked.size(), marker.num_unmarked());
    return unmarked;
  }

  Marker marker;
};

// Marks according to the definition, with sets and a list of the ranges to scan.
class ReachableModel {
 public:
  ReachableModel(std::map<uintptr_t, size_t> objects, const Marker::Options& options)
      : objects_(std::move(objects)), options_(options) {}

  void AddConditional(const GuardedPages& pages) { conditional_[pages.start()] = pages.end(); }
  void AddRange(uintptr_t start, uintptr_t end) { to_scan_.emplace_back(start, end); }
  void AddPointer(uintptr_t word) { Consider(word); }
  void Run() {
    while (!to_scan_.empty()) {
      const auto [start, end] = to_scan_.back();
      to_scan_.pop_back();
      const size_t step = options_.pointer_source_alignment;
      for (uintptr_t at = (start + step - 1) / step * step; at + sizeof(uintptr_t) <= end;
           at += step) {
        uintptr_t word;
        memcpy(&word, reinterpret_cast<const void*>(at), sizeof(word));
        Consider(word);
      }
    }
  }

  std::set<uintptr_t> Unmarked() const {
    std::set<uintptr_t> unmarked;
    for (const auto& [start, bytes] : objects_) {
      if (!marked_.contains(start)) unmarked.insert(start);
    }
    return unmarked;
  }

 private:
  void Consider(uintptr_t word) {
    auto object = objects_.upper_bound(word);
    if (object != objects_.begin()) {
      --object;
      const size_t offset = word - object->first;
      if (offset < object->second) {
        if (offset <= options_.max_pointer_offset && marked_.insert(object->first).second) {
          to_scan_.emplace_back(object->first, object->first + object->second);
        }
        return;
      }
    }
    auto range = conditional_.upper_bound(word);
    if (range == conditional_.begin()) return;
    --range;
    if (word < range->second && reached_.insert(range->first).second) to_scan_.push_back(*range);
  }

  std::map<uintptr_t, size_t> objects_;
  Marker::Options options_;
  std::map<uintptr_t, uintptr_t> conditional_;
  std::set<uintptr_t> marked_;
  std::set<uintptr_t> reached_;
  std::vector<std::pair<uintptr_t, uintptr_t>> to_scan_;
};

struct Fuzz : testing::TestWithParam<int> {};

TEST_P(Fuzz, AgreesWithTheDefinition) {
  SeededRandom random(9200 + static_cast<uint64_t>(GetParam()));
  constexpr size_t kOffsets[] = {0, 8, 100, 1024, 5000, Marker::kAnyOffset};
  constexpr size_t kLists[] = {1, 2, 16, 1024, size_t{1} << 15};
  const MemoryReader reader(/*guarded=*/false);
  for (int round = 0; round < 12; ++round) {
    const Marker::Options options = {
        .max_pointer_offset = kOffsets[random.Below(std::size(kOffsets))],
        .pointer_source_alignment = size_t{1} << random.Below(sizeof(uintptr_t) == 8 ? 4 : 3),
        .ring_objects = kLists[random.Below(std::size(kLists))]};
    const MemoryReader* const reads = random.OneIn(2) ? &reader : nullptr;
    const size_t n = random.Between(1, random.OneIn(2) ? 50 : 6000);
    std::vector<std::pair<char*, size_t>> objects;
    for (size_t i = 0; i < n; ++i) {
      const size_t limit = random.OneIn(500) ? 2 << 20 : random.OneIn(20) ? 9000 : 300;
      char* const p = static_cast<char*>(tc_malloc(random.Below(limit)));
      objects.emplace_back(p, tc_malloc_size(p));
      memset(p, 0, objects.back().second);
    }
    std::vector<std::unique_ptr<GuardedPages>> conditional;
    for (size_t i = random.Below(random.OneIn(4) ? 300 : 20); i > 0; --i) {
      conditional.push_back(
          std::make_unique<GuardedPages>(HardwarePageSize() * random.Between(1, 100)));
    }
    const GuardedPages root(2 * HardwarePageSize());
    // There are about as many pointers as objects, so that some objects are reached and some are
    // not.
    const auto any_word = [&]() -> uintptr_t {
      const auto& [p, bytes] = objects[random.Below(n)];
      const uintptr_t start = AddressOf(p);
      switch (random.Below(12)) {
        case 0:
          return start + random.Below(bytes);
        case 1:
          return start + bytes;
        case 2:
          return start - 1;
        case 3:
          return start + std::min(bytes - 1, options.max_pointer_offset);
        case 4:
          return start + std::min(bytes, options.max_pointer_offset) + 1;
        case 5:
          return static_cast<uintptr_t>(random.Next());
        case 6:
          return static_cast<uintptr_t>(random.Next() >> 40);
        case 7:
          if (conditional.empty()) return 0;
          return conditional[random.Below(conditional.size())]->start() + random.Below(4096);
        default:
          return start;
      }
    };
    const auto store = [&](char* start, size_t bytes) {
      if (bytes < sizeof(uintptr_t)) return;
      const uintptr_t word = any_word();
      size_t at = random.Below(bytes - sizeof(word) + 1);
      if (!random.OneIn(5)) at -= at % sizeof(word);
      memcpy(start + at, &word, sizeof(word));
    };
    for (size_t i = random.Between(n / 2, 3 * n / 2); i > 0; --i) {
      const auto& [p, bytes] = objects[random.Below(n)];
      store(p, bytes);
    }
    for (const auto& pages : conditional) {
      for (size_t i = random.Below(10); i > 0; --i) {
        store(pages->data(), pages->bytes());
      }
    }
    for (size_t i = random.Between(1, 10); i > 0; --i) {
      store(root.data(), root.bytes());
    }
    // Freed objects are not scanned, no matter what they contain.
    std::vector<bool> freed(n);
    for (size_t i = 0; i < n; ++i) {
      freed[i] = random.OneIn(10);
      if (freed[i]) tc_free(objects[i].first);
    }
    MarkedLook look(options, reads);
    ReachableModel model(look.Objects(), options);
    ReachableModel anywhere(look.Objects(),
                            {.max_pointer_offset = Marker::kAnyOffset,
                             .pointer_source_alignment = options.pointer_source_alignment});
    for (const auto& pages : conditional) {
      ASSERT_TRUE(look.marker.AddConditional(pages->start(), pages->end()));
      model.AddConditional(*pages);
      anywhere.AddConditional(*pages);
    }
    // The range may start and end at any address.
    const uintptr_t start = root.start() + random.Below(40);
    const uintptr_t end = root.end() - random.Below(40);
    ASSERT_TRUE(look.marker.AddRange(start, end));
    model.AddRange(start, end);
    anywhere.AddRange(start, end);
    const uintptr_t pointer = any_word();
    ASSERT_TRUE(look.marker.AddPointer(pointer));
    model.AddPointer(pointer);
    anywhere.AddPointer(pointer);
    look.Run();
    model.Run();
    ASSERT_EQ(look.Unmarked(), model.Unmarked()) << "round " << round;
    // Adds one more root after the first run.
    const uintptr_t second = any_word();
    ASSERT_TRUE(look.marker.AddPointer(second));
    model.AddPointer(second);
    anywhere.AddPointer(second);
    look.Run();
    model.Run();
    anywhere.Run();
    ASSERT_EQ(look.Unmarked(), model.Unmarked()) << "round " << round;
    std::set<uintptr_t> far = model.Unmarked();
    for (const uintptr_t object : anywhere.Unmarked()) far.erase(object);
    ASSERT_EQ(look.ReachedFar(), far) << "round " << round;

    // All leaked objects are reachable from the direct ones, but not if one of these is left out.
    ASSERT_TRUE(look.marker.FindIndirect());
    ReachableModel all(look.Objects(), options);
    const std::set<uintptr_t> lost = look.Unmarked();
    std::vector<uintptr_t> direct;
    for (const uintptr_t object : lost) {
      if (!look.IsIndirect(reinterpret_cast<void*>(object))) direct.push_back(object);
    }
    for (const uintptr_t object : direct) all.AddPointer(object);
    all.Run();
    const std::set<uintptr_t> not_reached = all.Unmarked();
    for (const uintptr_t object : lost) ASSERT_FALSE(not_reached.contains(object));
    if (direct.size() < 50) {
      for (const uintptr_t left_out : direct) {
        ReachableModel rest(look.Objects(), options);
        for (const uintptr_t object : direct) {
          if (object != left_out) rest.AddPointer(object);
        }
        rest.Run();
        ASSERT_TRUE(rest.Unmarked().contains(left_out));
      }
    }
    for (size_t i = 0; i < n; ++i) {
      if (!freed[i]) tc_free(objects[i].first);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(MarkerTest, Fuzz, testing::Range(0, 10));

// Only unreadable memory is left out, both if the caller names it and if a reader finds it.
TEST(MarkerTest, UnreadablePartOfAnObjectIsSkipped) {
  const MemoryReader reader(/*guarded=*/false);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t pages : {size_t{4}, size_t{200}}) {
    auto* const holder = static_cast<char*>(tc_memalign(page, pages * page));
    memset(holder, 0, pages * page);
    void* objects[3];
    const size_t at[3] = {page - sizeof(void*), page + 64, 2 * page};
    for (int i = 0; i < 3; ++i) {
      objects[i] = tc_malloc(64);
      memset(objects[i], 0, 64);
      memcpy(holder + at[i], &objects[i], sizeof(void*));
    }
    const uintptr_t word = AddressOf(holder);
    const AddressRange broken = {AddressOf(holder) + page, AddressOf(holder) + 2 * page};
    ASSERT_EQ(mprotect(holder + page, page, PROT_NONE), 0);
    for (const bool known : {false, true}) {
      MarkedLook look({}, known ? nullptr : &reader);
      if (known) look.marker.SetUnreadable(&broken, 1);
      look.AddWords(&word, 1);
      look.Run();
      EXPECT_TRUE(look.IsMarked(objects[0]));
      EXPECT_FALSE(look.IsMarked(objects[1]));
      EXPECT_TRUE(look.IsMarked(objects[2]));
      EXPECT_EQ(look.marker.counts().unread_bytes, page);
    }
    ASSERT_EQ(mprotect(holder + page, page, PROT_READ | PROT_WRITE), 0);
    for (void* object : objects) tc_free(object);
    tc_free(holder);
  }
}

// Reads only the touched pages of memory that was allocated and hardly used.
TEST(MarkerTest, UntouchedPagesAreNotRead) {
  BackedPages backed(HardwarePageSize());
  if (!backed.Open()) GTEST_SKIP() << "the system does not say which pages were touched";
  constexpr size_t kBytes = size_t{64} << 20;
  const GuardedPages range(kBytes);
  void* const object = tc_calloc(1, 64);
  memcpy(range.data() + kBytes - sizeof(object), &object, sizeof(object));
  const auto backed_bytes = [&] {
    static_cast<void>(backed.Open());  // drops the entries that were read
    size_t bytes = 0;
    AddressRange rest = {range.start(), range.end()};
    for (AddressRange part; backed.TakeFirst(&rest, BackedPages::Want::kAny, &part);) {
      bytes += part.end - part.start;
    }
    return bytes;
  };
  const size_t before = backed_bytes();
  EXPECT_LT(before, kBytes);
  MarkedLook look;
  look.AddRange(range);
  look.Run();
  EXPECT_EQ(backed_bytes(), before);
  EXPECT_TRUE(look.IsMarked(object));
  tc_free(object);
}

TEST(MarkerTest, WithoutMemory) {
  void** const object = static_cast<void**>(tc_calloc(1, 64));
  FakeVirtualMemory vm({.range_bytes = size_t{1} << 20});
  CheckMemory little(vm);
  const Look look;
  Marker large_list(look.index, little, {.ring_objects = size_t{1} << 20});
  EXPECT_FALSE(large_list.Prepare());
  Marker marker(look.index, little, {});
  ASSERT_TRUE(marker.Prepare());
  bool added = true;
  for (size_t i = 0; i < 1 << 20 && added; ++i) added = marker.AddPointer(i);
  EXPECT_FALSE(added);
  tc_free(object);
}

}  // namespace
}  // namespace tcmalloc
