// SPDX-License-Identifier: BSD-3-Clause
// Tests the marker on the memory of another process, with words of 4 bytes and with other pages and
// size classes than this library has. tests/unit/instruments/leaks/process_search_test.cc tests it
// on this process.
#include "formats/marker/marker.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "formats/marker/marker_scan.h"
#include "formats/marker/searched_memory.h"
#include "instruments/leaks/heap_objects.h"
#include "os/memory/virtual_memory.h"

namespace tcmalloc {
namespace {

// Pages have 4 KiB. Class 1 has objects of 24 bytes, class 2 has objects of 512.
struct OtherGeometry {
  static constexpr size_t kRootEntries = 1024;
  static constexpr size_t kLeafBits = 10;
  static constexpr size_t kSizes[] = {0, 24, 512};

  static size_t page_shift() { return 12; }
  static size_t size(size_t c) { return kSizes[c]; }
  static size_t ObjectAt(size_t c, size_t offset) { return offset / kSizes[c]; }
};

constexpr InFlightLayout kOtherLayout = {.tag = 0xd2695e14,
                                         .object_words_kind = 0x11,
                                         .bin_arrays_kind = 0x22,
                                         .object_words_bytes = 12 + 4 * 12,
                                         .num_words_at = 8,
                                         .words_at = 12,
                                         .max_words = 4,
                                         .word_bytes = 12,
                                         .word_mask_at = 4,
                                         .bin_arrays_bytes = 12,
                                         .chain_at = 8,
                                         .array_bytes = 8,
                                         .array_count_at = 4};

// Pieces of another process's memory. Copy reads the pieces that cannot be read directly.
class OtherMemory {
 public:
  using Word = uint32_t;
  using Pieces = std::map<uintptr_t, std::vector<char>>;

  explicit OtherMemory(const Pieces* pieces, bool direct) : pieces_(pieces), direct_(direct) {}

  bool FindDirect(uintptr_t start, uintptr_t end, uintptr_t* by) const {
    const auto piece = At(start);
    if (!direct_ || piece == pieces_->end() || piece->first + piece->second.size() < end) {
      return false;
    }
    *by = reinterpret_cast<uintptr_t>(piece->second.data()) - piece->first;
    return true;
  }
  size_t Copy(void* to, uintptr_t start, size_t bytes) const {
    const auto piece = At(start);
    if (piece == pieces_->end()) return 0;
    const size_t n = std::min(bytes, piece->first + piece->second.size() - start);
    memcpy(to, piece->second.data() + (start - piece->first), n);
    return n;
  }
  void Prefetch(uintptr_t) const {}
  bool TakeFirst(AddressRange* rest, WantedPages, AddressRange* part) {
    *part = *rest;
    rest->start = rest->end;
    return part->start < part->end;
  }
  const InFlightLayout& in_flight() const { return kOtherLayout; }

 private:
  Pieces::const_iterator At(uintptr_t address) const {
    auto piece = pieces_->upper_bound(address);
    if (piece == pieces_->begin()) return pieces_->end();
    --piece;
    return address < piece->first + piece->second.size() ? piece : pieces_->end();
  }

  const Pieces* pieces_;
  const bool direct_;
};

constexpr uintptr_t kSmall = 0x10000;   // two pages of objects of 24 bytes
constexpr uintptr_t kMedium = 0x20000;  // a page of objects of 512 bytes
constexpr uintptr_t kLarge = 0x30000;   // four pages
constexpr uintptr_t kRoots = 0x50000;
constexpr uintptr_t kOther = 0xf0000000;  // a mapping, above INT32_MAX
constexpr uintptr_t kLargeRecord = 0x7777000;

class OtherProcessTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    for (const auto& [start, bytes] :
         {std::pair{kSmall, 8192}, std::pair{kMedium, 4096}, std::pair{kLarge, 16384},
          std::pair{kRoots, 4096}, std::pair{kOther, 4096}}) {
      pieces_[start].resize(static_cast<size_t>(bytes));
    }
    const SpanToMark spans[] = {
        {.start = kSmall, .pages = 2, .object_bytes = 24, .num_objects = 341, .size_class = 1},
        {.start = kMedium, .pages = 1, .object_bytes = 512, .num_objects = 8, .size_class = 2},
        {.record = kLargeRecord, .start = kLarge, .pages = 4, .object_bytes = 16384}};
    ObjectIndexOf<OtherGeometry>::Extent extent;
    for (const SpanToMark& span : spans) extent.Add(span, span.pages << 12);
    ASSERT_TRUE(index_.Reserve(extent));
    index_.SetObjectsPerSpan(1, 341);
    index_.SetObjectsPerSpan(2, 8);
    const uint64_t free_small[6] = {1};  // the first object is free
    const uint64_t free_medium[1] = {0};
    ASSERT_TRUE(index_.AddSpan(spans[0], free_small));
    ASSERT_FALSE(index_.FinishSpans());
    ASSERT_TRUE(index_.AddSpan(spans[1], free_medium));
    ASSERT_TRUE(index_.AddSpan(spans[2], nullptr));
    ASSERT_TRUE(index_.FinishSpans());
    index_.RemoveFree(Small(2));
    index_.RemoveFree(Small(3) + 1);  // is no object
    index_.Count();
  }
  static uintptr_t Small(size_t i) { return kSmall + i * 24; }
  static uintptr_t Medium(size_t i) { return kMedium + i * 512; }
  void Store(uintptr_t at, uint32_t word) {
    auto piece = std::prev(pieces_.upper_bound(at));
    memcpy(&piece->second[at - piece->first], &word, sizeof(word));
  }
  // Returns the objects that a search marks. The memory at kRoots is a stack or a plain range.
  std::set<uintptr_t> Marked() {
    marker_.emplace(index_, memory_, MarkerOf<OtherGeometry, OtherMemory>::Options(), &pieces_,
                    GetParam());
    EXPECT_TRUE(marker_->Prepare());
    EXPECT_TRUE(marker_->AddConditional(kOther, kOther + 4096));
    EXPECT_TRUE(is_stack_ ? marker_->AddStack(kRoots, kRoots + 4096)
                          : marker_->AddRange(kRoots, kRoots + 4096));
    EXPECT_TRUE(marker_->Run());
    std::set<uintptr_t> marked;
    index_.ForEach([&](const LiveObject& object) {
      if (marker_->IsMarked(object.number)) marked.insert(object.start);
    });
    return marked;
  }

  SystemVirtualMemory vm_;
  CheckMemory memory_{vm_};
  OtherMemory::Pieces pieces_;
  ObjectIndexOf<OtherGeometry> index_{memory_};
  std::optional<MarkerOf<OtherGeometry, OtherMemory>> marker_;
  bool is_stack_ = false;
};

using Addresses = std::set<uintptr_t>;

TEST_P(OtherProcessTest, FollowsWordsOfFourBytes) {
  Store(kRoots + 4, static_cast<uint32_t>(Small(7)));
  Store(Small(7) + 20, static_cast<uint32_t>(Medium(3) + 100));
  Store(Medium(3) + 508, static_cast<uint32_t>(kLarge + 1024));
  Store(kLarge + 16380, static_cast<uint32_t>(kOther + 4095));
  Store(kOther + 4092, static_cast<uint32_t>(Small(9)));
  Store(kRoots + 8, static_cast<uint32_t>(Small(0)));  // free
  Store(kRoots + 12, static_cast<uint32_t>(kLarge) - 1);
  EXPECT_EQ(Marked(), (Addresses{Small(7), Medium(3), kLarge, Small(9)}));
  EXPECT_EQ(marker_->counts().words, (4096 + 24 + 512 + 16384 + 4096 + 24) / 4u);
}

TEST_P(OtherProcessTest, ObjectsInFlight) {
  ASSERT_TRUE(index_.AddInFlight(Small(20)));
  is_stack_ = true;
  const auto mark = [&](uintptr_t at, uint32_t kind) {
    Store(at, static_cast<uint32_t>(kOtherLayout.tag ^ at));
    Store(at + 4, kind);
  };
  // The record has two bitmap words: objects 4 and 6 after Small(30), and object 5 after Medium(0).
  mark(kRoots + 64, 0x11);
  Store(kRoots + 72, 2);
  Store(kRoots + 76, static_cast<uint32_t>(Small(30)));
  Store(kRoots + 80, 1u << 4 | 1u << 6);
  Store(kRoots + 88, static_cast<uint32_t>(Medium(0)));
  Store(kRoots + 92, 1u << 5);
  // The chain of two arrays lies in the other mapping.
  mark(kRoots + 256, 0x22);
  Store(kRoots + 264, static_cast<uint32_t>(kOther));
  Store(kOther + 4, 2);
  Store(kOther + 8, static_cast<uint32_t>(kOther + 512));
  Store(kOther + 12, static_cast<uint32_t>(Small(50)));
  Store(kOther + 16, static_cast<uint32_t>(Small(51)));
  Store(kOther + 516, 1);
  Store(kOther + 520, static_cast<uint32_t>(kOther));  // makes a cycle; a search is bounded
  Store(kOther + 524, static_cast<uint32_t>(Small(52)));
  // Adds a pointer to the record of a large span.
  Store(kRoots + 512, static_cast<uint32_t>(kLargeRecord));
  Addresses found = Marked();
  for (const uintptr_t object :
       {Small(20), Small(34), Small(36), Medium(5), Small(50), Small(51), Small(52), kLarge}) {
    EXPECT_EQ(found.count(object), 1u) << object;
  }
  EXPECT_EQ(found.count(Small(53)), 0u);
  // Outside of a stack, the same words are just numbers. The range still points to the other
  // mapping.
  is_stack_ = false;
  found = Marked();
  EXPECT_EQ(found.count(Small(34)), 0u);
  EXPECT_EQ(found.count(kLarge), 0u);
}

// A thread in the allocator may know a large object only by the number of its first page.
TEST_P(OtherProcessTest, PageNumberOfALargeObject) {
  constexpr uint32_t kPage = kLarge >> 12;
  constexpr uintptr_t kLastFrames = kAllocatorStackBytes;
  const auto is_marked_with = [&](uintptr_t at, uint32_t word) {
    Store(at, word);
    const bool marked = Marked().contains(kLarge);
    Store(at, 0);
    return marked;
  };
  is_stack_ = true;
  EXPECT_TRUE(is_marked_with(kRoots, kPage));
  EXPECT_TRUE(is_marked_with(kRoots + kLastFrames - 4, kPage));
  EXPECT_FALSE(is_marked_with(kRoots + kLastFrames, kPage)) << "of the program's own frames";
  EXPECT_FALSE(is_marked_with(kRoots, kPage + 1)) << "its second page";
  EXPECT_FALSE(is_marked_with(kRoots, kPage | 1u << 20)) << "more bits than a number of a page has";
  EXPECT_FALSE(is_marked_with(kRoots, kSmall >> 12)) << "a small object";
  is_stack_ = false;
  EXPECT_FALSE(is_marked_with(kRoots, kPage)) << "not on a stack";
}

TEST_P(OtherProcessTest, MissingMemoryIsCounted) {
  Store(kRoots, static_cast<uint32_t>(Small(7)));
  Store(kRoots + 4, static_cast<uint32_t>(kLarge));
  pieces_.erase(kLarge);
  EXPECT_EQ(Marked(), (Addresses{Small(7), kLarge}));
  EXPECT_EQ(marker_->counts().unread_bytes, 16384u);
  EXPECT_EQ(marker_->counts().words, (4096 + 24) / 4u);
}

INSTANTIATE_TEST_SUITE_P(MarkTest, OtherProcessTest, testing::Bool());

}  // namespace
}  // namespace tcmalloc
